"""A task's files out of its package: the reverse of the import, for any version of the package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rover.policy.solution import SETTINGS
from rover.port.harbor import config as configs
from rover.port.harbor import split
from rover.port.harbor.layout import BESIDE, CONFIG, TOP, original
from rover.port.harbor.tree import Item, Tree, below, check_links, check_path, links_of, relinked
from rover.port.harbor.values import from_json, same
from rover.sandbox.protocol import Files
from rover_store.errors import PackageError
from rover_store.ids import COMPONENTS
from rover_store.records import Context, Harness, Verifier
from rover_store.records.components import Environment


def is_task(files: Files) -> bool:
    """Whether a package came from Harbor."""
    return CONFIG in files


def restore(files: Files) -> dict[str, Item]:
    """The task folder of a package that came from Harbor. PackageError where its parts do not fit."""
    beside = {name: _load(files, path) for name, path in BESIDE.items()}
    out: dict[str, Item] = {}
    for name in (*COMPONENTS, "demonstrations"):
        own = {p: Item(d) for p, d in files.items() if p.startswith(f"{name}/") and original(p)}
        held = {p[len(name) + 1 :]: item for p, item in own.items()}
        for path in beside[name].get("executable", ()):
            if path in held:
                held[path] = replace(held[path], executable=True)
        held = relinked(held, beside[name].get("links", {}))
        out |= {original(f"{name}/{path}"): _moved(item, name) for path, item in held.items()}
    runs = {*beside["demonstrations"].get("top_executable", ()), *beside["demonstrations"].get("texts_executable", ())}
    out |= {path: Item(files[path], path in runs) for path in TOP if path in files}
    if beside["task"].get("instruction") != "of the steps":
        head = beside["task"].get("instruction_head", "")
        out["instruction.md"] = Item(head.encode() + files["task/instruction.md"], "instruction.md" in runs)
    for path in out:
        check_path(path)
    check_links(out)
    out[configs.FILE] = Item(_toml(files, beside, below(out, "environment/")), configs.FILE in runs)
    return dict(sorted(out.items()))


def _moved(item: Item, component: str) -> Item:
    """A folder's link carries the folder's path: in the task, not in the component."""
    folder, mark, text = item.link.rpartition("\0")
    return replace(item, link=f"{original(f'{component}/{folder}/x')[:-2]}\0{text}") if mark else item


def _toml(files: Files, beside: Mapping[str, Mapping[str, Any]], environment: Tree) -> bytes:
    """The bytes as they came where they still say what the package does; else written anew."""
    import tomli_w

    config = config_of(files, beside, environment)
    came = files.get(CONFIG)
    if came is not None:
        try:
            if same(configs.parse(came), config):
                return came
        except PackageError:
            pass
    return tomli_w.dumps(config).encode()


def config_of(files: Files, beside: Mapping[str, Mapping[str, Any]], environment: Tree) -> configs.Config:
    """The settings that a package holds, in its records and beside them."""
    context = Context.load(files["context/context.json"], "context/context.json")
    verifier = Verifier.load(files["verifier/verifier.json"], "verifier/verifier.json")
    if verifier.program is None:
        raise PackageError("verifier/verifier.json", "program", "is absent, and Harbor runs a program")
    harness = Harness.load(files["harness/harness.json"], "harness/harness.json")
    records = split.Records(context.environment or Environment(), harness, verifier.program)
    parts = {name: from_json(beside[name].get("config", {})) for name in COMPONENTS}
    workdir = str(beside["context"].get("image_workdir", ""))
    config = split.merged(parts, records, split.given_of(environment, workdir))
    if variables := _load(files, SETTINGS).get("env"):
        own = config.get("solution")
        config["solution"] = {**(own if isinstance(own, dict) else {}), "env": variables}
    return config


def _load(files: Files, path: str) -> dict[str, Any]:
    data = files.get(path)
    if data is None:
        return {}
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise PackageError(path, "", "is not valid JSON") from None
    if not isinstance(found, dict):
        raise PackageError(path, "", "must be a JSON object")
    for key, value in found.items():
        _check(path, key, value)
    return found


def _check(path: str, key: str, value: object) -> None:
    """A package may come from anywhere: what stands beside its records has to have the form that an import gives it."""
    inner: list[object] = []
    if key in ("executable", "top_executable", "texts_executable"):
        sound, inner = isinstance(value, list), value if isinstance(value, list) else []
    elif key in ("links", "env"):
        sound, inner = isinstance(value, dict), [*value.values()] if isinstance(value, dict) else []
    else:
        sound = isinstance(value, dict if key == "config" else str)
    if not sound or not all(isinstance(one, str) for one in inner):
        raise PackageError(path, key, "has not the form that an import gives it")


def unlike(a: Tree, b: Tree) -> str:
    """The first path in which two trees differ; empty where they are the same."""
    for path in sorted({*a, *b}):
        if a.get(path) != b.get(path):
            return path
    return "" if links_of(a) == links_of(b) else "links"
