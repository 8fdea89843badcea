"""One thing of a store, looked at: a commit, package, component, file, rollout or case.

What a word names, in this order: REV:PATH, a package (NAME or NAME/component), a case, a revision, a rollout, a tree or
file of one (ID or ID:PATH), a resource (KIND/NAME).
Everything here reads plain JSON: `show` must start fast. Rollouts alone need their records.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rover_store import layout
from rover_store.errors import NotFound, RoverError
from rover_store.layout import changed_components, changed_packages, changed_resources
from rover_store.names import COMPONENTS, RESOURCE_KINDS
from rover_store.revisions.syntax import split_path
from rover_store.trees import SUBMODULE

if TYPE_CHECKING:
    from rover_store.objects import Objects
    from rover_store.store import Store

_HEX = re.compile(r"[0-9a-f]{4,64}")
#: a larger file is not read to be shown
_SHOWN = 64 << 20


@dataclass(frozen=True, slots=True)
class Shown:
    """What was found. `kind`: commit, package, component, file, folder, rollout, case."""

    kind: str
    name: str
    data: dict[str, Any]


def show(store: Store, what: str, rev: str = "HEAD") -> Shown:
    """Find and read one thing. NotFound with what was tried; Ambiguous for a short id of several."""
    if not what.startswith(":/"):
        rev_of, path = split_path(what)
        if path is not None:
            return _path(store, what, rev_of or "HEAD", path)
    name, _, rest = what.partition("/")
    if _has_package(store, name, rev):
        return _package_part(store, name, rest, rev)
    if what in store.cases():
        return _case(store, what)
    try:
        found = store.find(what)
    except NotFound as error:
        if _HEX.fullmatch(what):
            missing = NotFound("package, case, revision or rollout", what)
            return _rollout(store, what) or _of_evidence(store, what, missing)
        if error.hint:  # it is a revision by its form, and says what is wrong with it
            raise
        kind, _, part = what.removeprefix("resources/").partition("/")
        if kind in RESOURCE_KINDS and part:
            found = store.find(f"{rev}:resources/{kind}/{part}")
            return _object(store.objects, what, found.kind, found.id)
        raise NotFound("package, case, revision or rollout", what, hint="`rover list` shows packages") from None
    if found.kind == "commit":
        return _commit(store, found.id)
    return _object(store.objects, what, found.kind, found.id)


def _has_package(store: Store, name: str, rev: str) -> bool:
    try:
        store.package(name, rev)
    except NotFound:
        return False
    return True


def _path(store: Store, what: str, rev: str, path: str) -> Shown:
    try:
        found = store.find(what)
    except NotFound as error:
        return _of_evidence(store, what, error)
    parts = path.strip("/").split("/")
    if found.kind == "tree" and len(parts) == 1 and parts[0] not in ("", "packages", "resources"):
        data = package_data(store.objects, parts[0], found.id, layout.entry(store.objects, "", found.id).components)
        return Shown("package", parts[0], data)
    if found.mode == SUBMODULE:
        text = f"Subproject commit {found.id}\n"
        return Shown("file", what, {"id": found.id, "size": len(text), "text": text})
    if found.kind == "commit":
        return _commit(store, found.id)
    return _object(store.objects, what, found.kind, found.id)


def _of_evidence(store: Store, what: str, error: NotFound) -> Shown:
    """A tree or file that a rollout left; `error` where there is none either."""
    try:
        found = store.evidence.find(what)
    except NotFound:
        raise error from None
    return _object(store.evidence.objects, what, found.kind, found.id)


def _object(objects: Objects, name: str, kind: str, object_id: str) -> Shown:
    if kind == "tree":
        level = objects.list_tree(object_id)
        entries = {n: {"id": i.id, "folder": i.is_folder} for n, i in level.items()}
        return Shown("folder", name, {"id": object_id, "entries": entries})
    if (size := objects.size(object_id)) > _SHOWN:
        return Shown("file", name, {"id": object_id, "size": size, "text": None})
    data = objects.get(object_id)[1]
    return Shown("file", name, {"id": object_id, "size": size, "text": text_of(data)})


def text_of(data: bytes) -> str | None:
    """The text of a blob, None where it is none."""
    if b"\0" in data[:8000]:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _commit(store: Store, commit_id: str) -> Shown:
    commit = store.revisions.load(commit_id)
    parent = store.revisions.load(commit.parents[0]).tree if commit.parents else None
    packages = []
    for change in changed_packages(store.objects, parent, commit.tree):
        parts = [c.name for c in changed_components(store.objects, change.old, change.new)]
        packages.append({"name": change.name, "old": change.old, "new": change.new, "components": parts})
    resources = [c._asdict() for c in changed_resources(store.objects, parent, commit.tree)]
    return Shown(
        "commit",
        commit_id,
        {
            "commit": commit_id,
            "tree": commit.tree,
            "parents": list(commit.parents),
            "author": commit.author,
            "time": commit.time,
            "message": commit.message,
            "trailers": dict(commit.trailers),
            "packages": packages,
            "resources": resources,
        },
    )


def _package_part(store: Store, name: str, rest: str, rev: str) -> Shown:
    entry = store.package(name, rev)
    if not rest:
        return Shown("package", name, package_data(store.objects, name, entry.tree, dict(entry.components)))
    item = store.objects.subtree(entry.tree, rest)
    if item is None:
        raise NotFound("component or file", f"{name}/{rest}", hint=f"components: {', '.join(COMPONENTS)}")
    if rest in COMPONENTS:
        files = {p: i.id for p, i in store.objects.read_tree(item.id).items()}
        record = _json(store.objects, item.id, f"{rest}.json")
        return Shown("component", f"{name}/{rest}", {"id": item.id, "record": record, "files": files})
    return _object(store.objects, f"{name}/{rest}", "tree" if item.is_folder else "blob", item.id)


def package_data(objects: Objects, name: str, tree: str, components: dict[str, str]) -> dict[str, Any]:
    """A package as plain data: what `show` prints and `--json` gives."""
    instruction = objects.subtree(tree, "task/instruction.md")
    return {
        "name": name,
        "tree": tree,
        "components": components,
        "package": _json(objects, tree, "package.json"),
        "context": _json(objects, tree, "context/context.json"),
        "harness": _json(objects, tree, "harness/harness.json"),
        "contract": _json(objects, tree, "task/contract.json"),
        "verifier": _json(objects, tree, "verifier/verifier.json"),
        "instruction": (text_of(objects.read(instruction.id)) or "") if instruction else "",
    }


def _json(objects: Objects, tree: str, path: str) -> dict[str, Any]:
    item = objects.subtree(tree, path)
    if item is None:
        return {}
    try:
        value = json.loads(objects.read(item.id))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _case(store: Store, case: str) -> Shown:
    commit = store.cases()[case]
    tree = store.revisions.load(commit).tree
    record = _json(store.objects, tree, "case.json")
    if not record:
        raise RoverError(f"case {case}: {commit[:12]} holds no case.json")
    return Shown("case", case, {"commit": commit, **record})


def _rollout(store: Store, prefix: str) -> Shown | None:
    from rover_store.errors import Ambiguous

    ids = store.evidence.matching(prefix)
    if len(ids) > 1:
        raise Ambiguous(prefix, tuple(i[:12] for i in ids))
    if not ids:
        return None
    trajectory = store.evidence.get_rollout(ids[0])
    if trajectory is None:
        raise NotFound("rollout", ids[0])
    verdicts = [v.model_dump(mode="json", exclude_none=True) for v in store.evidence.iter_verdicts(ids[0])]
    return Shown("rollout", ids[0], {"trajectory": trajectory.model_dump(mode="json"), "verdicts": verdicts})
