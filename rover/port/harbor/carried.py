"""The package itself, carried inside of the task that was made of it: solution/rover/.

Harbor hashes and publishes it with the task, and shows it to nobody but the oracle. What lies in the task anyway is not
there a second time: the manifest names every file by its sha256. So the task comes back as the very package, with the
same component ids; unless somebody changed it since, which the manifest shows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rover.port.harbor.tree import Item, Tree, check_path, ignored
from rover.rollout.env import Env, env_from_files, tree_of
from rover_store.errors import PackageError
from rover_store.files.package_records import check_paths
from rover_store.records import Package
from rover_store.records.base import to_json

FOLDER = "solution/rover/"
MANIFEST = f"{FOLDER}package.json"
FORMAT = "rover-package/1"


def carried(env: Env, revision: str, task: Tree) -> dict[str, Item]:
    """The files that carry the package of a task. `task` is all else that the task holds."""
    package = {"files": env.files, **env.resources}
    task = {path: item for path, item in task.items() if not any(map(ignored, path.split("/")))}
    there = {_sha(item.data) for item in task.values()}
    out: dict[str, Item] = {}
    held: dict[str, dict[str, str]] = {}
    for part, files in package.items():
        held[part] = {}
        for path, data in sorted(files.items()):
            name = held[part][path] = _sha(data)
            if name not in there:
                out[f"{FOLDER}objects/{name}"] = Item(data)
    manifest = {
        "format": FORMAT,
        "package": env.package,
        "revision": revision,
        "files": held.pop("files"),
        "resources": held,
        "task": {path: _sha(item.data) for path, item in sorted({**task, **out}.items())},
    }
    return {**out, MANIFEST: Item(to_json(manifest))}


def is_carrier(tree: Tree) -> bool:
    return MANIFEST in tree


def changed(tree: Tree) -> str:
    """The first file that is not as it was exported; empty where all are."""
    said = _manifest(tree).get("task")
    if not isinstance(said, dict):
        raise PackageError(MANIFEST, "task", "must be an object")
    found = {path: _sha(item.data) for path, item in tree.items() if path != MANIFEST}
    for path in sorted({*said, *found}):
        if said.get(path) != found.get(path):
            return str(path)
    return ""


def unpacked(tree: Tree) -> tuple[str, dict[str, bytes], dict[str, dict[str, bytes]]]:
    """Name, files and resources of the package that a task carries. PackageError where it is damaged.

    An admission is what a test found in a store, never what a folder claims: it is left out.
    """
    manifest = _manifest(tree)
    by_hash = {_sha(item.data): item.data for item in tree.values()}
    files = _part(manifest, "files", by_hash)
    resources = {name: _files(value, by_hash, name) for name, value in _object(manifest, "resources").items()}
    check_paths(list(files))
    if "package.json" not in files:
        raise PackageError(MANIFEST, "files", "names no package.json")
    record = Package.load(files["package.json"], "package.json").model_copy(update={"admission": None})
    files["package.json"] = record.dump()
    env = env_from_files(files, resources)
    for number, ref in enumerate(env.context.resources):
        if tree_of(resources.get(f"{ref.kind}/{ref.name}", {})) != ref.tree:
            raise PackageError(MANIFEST, f"resources.{number}", f"{ref.kind}/{ref.name} is not of the version bound")
    return record.name, files, resources


def _manifest(tree: Tree) -> dict[str, Any]:
    try:
        found = json.loads(tree[MANIFEST].data)
    except (ValueError, RecursionError):
        raise PackageError(MANIFEST, "", "is not valid JSON") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise PackageError(MANIFEST, "format", f"is not {FORMAT}")
    return found


def _part(manifest: Mapping[str, Any], key: str, by_hash: Mapping[str, bytes]) -> dict[str, bytes]:
    return _files(_object(manifest, key), by_hash, key)


def _object(manifest: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = manifest.get(key)
    if not isinstance(value, dict):
        raise PackageError(MANIFEST, key, "must be an object")
    return value


def _files(names: object, by_hash: Mapping[str, bytes], where: str) -> dict[str, bytes]:
    if not isinstance(names, dict):
        raise PackageError(MANIFEST, where, "must be an object")
    out = {}
    for path, name in names.items():
        check_path(path)
        data = by_hash.get(name) if isinstance(name, str) else None
        if data is None:
            raise PackageError(MANIFEST, f"{where}.{path}", "its bytes are not in the task")
        out[path] = data
    return out


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
