"""Records by their place, and what the members of their lists are called; the keys by which members are matched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

#: place in a package or resource -> kind of record
RECORDS = {
    "package.json": "package",
    "context/context.json": "context",
    "task/task.json": "task",
    "task/contract.json": "contract",
    "harness/harness.json": "harness",
    "verifier/verifier.json": "verifier",
    "verifier/anchors.json": "anchors",
    "verifier/cases/cases.json": "cases",
    "verifier/reference/reference.json": "reference",
    "resource.json": "resource",
    "case.json": "repair",
}


class Item(NamedTuple):
    """What the members of a list are called, and the fields that name one. None: the member names itself."""

    name: str
    key: tuple[str, ...] = ()


#: (kind of record, field) -> members of the list there
ITEMS = {
    ("context", "files"): Item("file", ("path",)),
    ("context", "resources"): Item("resource", ("kind", "name")),
    ("context", "capabilities"): Item("capability"),
    ("contract", "requirements"): Item("requirement", ("id",)),
    ("contract", "deliverables"): Item("deliverable", ("id",)),
    ("contract", "givens"): Item("given", ("name",)),
    ("harness", "tools"): Item("tool"),
    ("verifier", "criteria"): Item("criterion", ("id",)),
    ("anchors", "anchors"): Item("anchor", ("id",)),
    ("cases", "negatives"): Item("negative", ("id",)),
    ("cases", "alternatives"): Item("alternative", ("id",)),
    ("cases", "states"): Item("state"),
    ("reference", "changes"): Item("change", ("path",)),
    ("package", "edges"): Item("edge", ("source", "target")),
    ("package", "provenance.sources"): Item("source", ("path",)),
    ("resource", "sources"): Item("source", ("path",)),
    ("repair", "proposals"): Item("proposal", ("component", "tree")),
    ("repair", "candidates"): Item("candidate", ("mask",)),
}
#: what names a member of any other list
_KEYS = ("id", "name", "path", "key")
#: defaults of the fields that name a member, where a record leaves them out
_DEFAULTS = {"kind": "files"}


def keyed(rows: Sequence[Any], known: Item | None) -> dict[str, Any] | None:
    """Members by their key in the order of the list; None where they have no key or share one."""
    if known is not None and not known.key:
        return {r: r for r in rows} if all(isinstance(r, str) for r in rows) and len(set(rows)) == len(rows) else None
    if not all(isinstance(r, dict) for r in rows):
        return None
    choices: Iterable[tuple[str, ...]] = (known.key,) if known is not None else ((k,) for k in _KEYS)
    for fields in choices:
        names = [_key(r, fields) for r in rows]
        if None not in names and len(set(names)) == len(names):
            return {str(n): r for n, r in zip(names, rows, strict=True)}
    return None


def _key(row: dict[str, Any], fields: tuple[str, ...]) -> str | None:
    values = [row.get(f, _DEFAULTS.get(f)) for f in fields]
    if not all(isinstance(v, str) or (type(v) is int) for v in values):
        return None
    if fields == ("source", "target"):
        return " -> ".join(map(str, values))
    return "/".join(map(str, values))
