"""Rows of the index, read from git: what changed between two trees, and what records say.

Trees are compared as raw entries, so that a walk over ten thousand commits parses only what differs. A record that
cannot be read gives empty fields: fsck tells, the index goes on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rover_store.commits import TRAILER_LINE, Commit
from rover_store.errors import StoreError
from rover_store.graph import Dependency, node
from rover_store.layout import is_name, is_place
from rover_store.names import COMPONENTS, RESOURCE_KINDS
from rover_store.objects import Objects
from rover_store.packs import TREE

_ENTRY = re.compile(rb"([0-7]+) ([^\0]*)\0(.{20})", re.DOTALL)
#: trees kept parsed: the next commit of a walk shares most folders with the last
_KEPT = 4096
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
Row = tuple[Any, ...]


class Side(NamedTuple):
    """A named tree on two sides; None where it does not exist."""

    name: str
    old: str | None
    new: str | None


class Trees:
    """Folders of trees, for comparison."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self._kept: dict[str, frozenset[tuple[bytes, bytes]]] = {}

    def folders(self, tree: str) -> frozenset[tuple[bytes, bytes]]:
        """(name, id) of the folders in one tree, as bytes."""
        found = self._kept.get(tree)
        if found is None:
            kind, data = self.objects.get(tree)
            rows = _ENTRY.findall(data)
            if kind != TREE or sum(len(mode) + len(name) + 22 for mode, name, _ in rows) != len(data):
                raise StoreError(f"tree {tree} is damaged", hint="rover fsck")
            found = frozenset((name, item) for mode, name, item in rows if mode in (b"40000", b"040000"))
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            if len(found) < 4 * _KEPT:
                self._kept[tree] = found
        return found

    def unequal(self, old: str | None, new: str | None) -> list[Side]:
        """Folders below two trees that differ, one level deep, in no order."""
        if old == new:
            return []
        a = self.folders(old) if old else frozenset()
        b = self.folders(new) if new else frozenset()
        before, after = dict(a - b), dict(b - a)
        sides = [Side(text(n), i.hex(), _hex(after.get(n))) for n, i in before.items()]
        return sides + [Side(text(n), None, i.hex()) for n, i in after.items() if n not in before]

    def packages(self, old: str | None, new: str | None) -> list[Side]:
        """Packages that differ between the trees of two revisions, sorted by name: those that lie in their place."""
        pairs = self._top(old, new, "packages")
        for _ in range(3):
            pairs = [Side(f"{p.name}/{n}", o, w) for p in pairs for n, o, w in self.unequal(p.old, p.new)]
        found = ((p.name, side) for p in pairs for side in self.unequal(p.old, p.new))
        return sorted(side for path, side in found if is_place(f"{path}/{side.name}", side.name))

    def resources(self, old: str | None, new: str | None) -> list[Side]:
        """Resources (KIND/NAME) that differ between the trees of two revisions, sorted."""
        kinds = [k for top in self._top(old, new, "resources") for k in self.unequal(top.old, top.new)]
        kinds = [k for k in kinds if k.name in RESOURCE_KINDS]
        sides = ((k.name, side) for k in kinds for side in self.unequal(k.old, k.new))
        return sorted(Side(f"{kind}/{n}", o, w) for kind, (n, o, w) in sides if is_name(n))

    def components(self, old: str | None, new: str | None) -> list[Side]:
        """Components that differ between two versions of a package, in the order C, T, H, V."""
        found = {side.name: side for side in self.unequal(old, new)}
        return [found[c] for c in COMPONENTS if c in found]

    def _top(self, old: str | None, new: str | None, name: str) -> list[Side]:
        return [side for side in self.unequal(old, new) if side.name == name]


def node_changes(trees: Trees, old: str | None, new: str | None) -> Iterator[tuple[str, str, str | None, str | None]]:
    """(node, package, old, new) of every package, component and resource that differs between two trees."""
    for package in trees.packages(old, new):
        yield package.name, package.name, package.old, package.new
        for c in trees.components(package.old, package.new):
            yield f"{package.name}/{c.name}", package.name, c.old, c.new
    for r in trees.resources(old, new):
        yield f"resources/{r.name}", "", r.old, r.new


# --- commits ---------------------------------------------------------------------------------------------
def commit_row(seq: int, commit: Commit, shown: bool) -> Row:
    subject, _, body = commit.message.partition("\n")
    author = commit.author.encode("utf-8", "replace").decode()
    has_body = body if len(subject) < len(commit.message) else None
    return seq, commit.id, commit.tree, author, whole(commit.time) or 0, date(commit.time), subject, has_body, shown


def trailer_rows(seq: int, message: str) -> Iterator[Row]:
    """Every `Key: value` line of the last paragraph, in order; a key may come twice."""
    if ": " not in message:
        return
    paragraphs = message.strip().split("\n\n")
    lines = paragraphs[-1].splitlines() if len(paragraphs) > 1 else []
    matches = [TRAILER_LINE.match(line) for line in lines]
    if all(matches):
        for position, match in enumerate(matches):
            assert match is not None
            yield seq, position, match[1], match[2]


def date(seconds: int) -> str:
    """`2026-01-31 14:00:00`, UTC; empty for a time that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return ""


# --- packages and resources ------------------------------------------------------------------------------
def record(objects: Objects, tree: str, file: str) -> dict[str, Any]:
    """A JSON file at the top of a tree as it is; empty where it is missing or no object."""
    item = objects.list_tree(tree).get(file)
    try:
        value = json.loads(objects.read(item.id)) if item is not None else {}
    except (ValueError, RecursionError, StoreError):
        return {}
    return value if isinstance(value, dict) else {}


def package_rows(objects: Objects, name: str, tree: str) -> tuple[Row, list[Row], list[Row]]:
    """Rows of a package for the tables package, node and edge."""
    level = objects.list_tree(tree)
    found = {c: level[c].id for c in COMPONENTS if c in level and level[c].is_folder}
    package = record(objects, tree, "package.json")
    origin, admission = (_object(package.get(k)) for k in ("provenance", "admission"))
    row = (
        name, tree, word(package.get("title")), word(package.get("family")), word(package.get("workspace")),
        word(origin.get("license")), word(origin.get("builder")), whole(origin.get("seed")),
        admission.get("components") == found, *(found.get(c) for c in COMPONENTS),
    )  # fmt: skip
    nodes: list[Row] = [(f"{name}/{c}", name, version) for c, version in found.items()]
    edges = {(e.source, e.target): e.version for e in edges_of(name, package)}
    return row, nodes, [(source, target, version, name) for (source, target), version in edges.items()]


def resource_row(objects: Objects, name: str, tree: str) -> Row:
    """Row of a resource KIND/NAME."""
    said = record(objects, tree, "resource.json")
    return name, name.partition("/")[0], tree, word(said.get("title")), word(said.get("license"))


def edges_of(name: str, package: dict[str, Any]) -> list[Dependency]:
    """Edges of a package.json with full names at both ends; what is no edge is left out."""
    out = []
    rows = package.get("edges")
    for row in rows if isinstance(rows, list) else ():
        values = [row.get(k) if isinstance(row, dict) else None for k in ("source", "target", "version")]
        if all(isinstance(v, str) for v in values):
            source, target, version = (word(v) for v in values)
            out.append(Dependency(node(name, source), node(name, target), version))
    return out


# --- evidence --------------------------------------------------------------------------------------------
def rollout_row(rollout: str, data: bytes) -> Row:
    """Row of a trajectory.json."""
    said = json.loads(data)
    key, usage = said["key"], _object(said.get("usage"))
    return (
        rollout, word(said.get("package")), *(word(key.get(k)) for k in ("context", "task", "harness", "policy")),
        whole(key.get("seed")), word(key.get("runtime")), word(said.get("end") or "completed"),
        word(said.get("error")), len(said.get("turns") or ()), whole(usage.get("prompt_tokens")) or 0,
        whole(usage.get("completion_tokens")) or 0, said.get("pruned") is not None,
    )  # fmt: skip


def verdict_rows(rollout: str, verifier: str, data: bytes) -> tuple[Row, list[Row]]:
    """Rows of a verdict for the tables verdict and score."""
    said = json.loads(data)
    row = (
        rollout, verifier, word(said.get("outcome")), number(said.get("score")), whole(said.get("gate")),
        word(said.get("reason")),
    )  # fmt: skip
    scores: list[Row] = [
        (rollout, verifier, i, word(s.get("criterion")), word(s.get("requirement")), number(s.get("score")),
         number(s.get("weight")), bool(s.get("critical")), word(s.get("status") or "scored"), word(s.get("reason")))
        for i, s in enumerate(map(_object, said.get("scores") or ()))
    ]  # fmt: skip
    return row, scores


# --- values ----------------------------------------------------------------------------------------------
def text(raw: bytes) -> str:
    """A name of git's as a database can hold it: bytes that are not UTF-8 become escapes."""
    return raw.decode("utf-8", "backslashreplace")


def word(value: Any) -> str:
    """A text field of a record; empty for what is none."""
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()


def whole(value: Any) -> int | None:
    """A whole number that a database holds, else None."""
    fits = isinstance(value, int) and not isinstance(value, bool) and _SMALLEST <= value <= _LARGEST
    return int(value) if fits else None


def number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _hex(raw: bytes | None) -> str | None:
    return None if raw is None else raw.hex()


def chunks(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    """Rows in lists of at most `size`."""
    held: list[Row] = []
    for row in rows:
        held.append(row)
        if len(held) >= size:
            yield held
            held = []
    if held:
        yield held
