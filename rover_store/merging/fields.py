"""Three-way merge of JSON values: objects key by key, arrays whose members have ids member by member.

A member's id is its `id`, `name` or `path`, whichever all members of all sides have and no side has twice. Any other
array, text or number is one value: a conflict where both sides changed it differently. The order of members is
merged too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rover_store.diffs.fields import same

KEYS = ("id", "name", "path")
Path = tuple[str, ...]


class Absent:
    """What a side has where it has nothing: not the same as null."""

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = Absent()
#: step of a path that stands for the order of an array's members
ORDER = "(order)"


class FieldConflict(NamedTuple):
    """Both sides changed one value. A path is made of keys, and of ids of members."""

    path: Path
    base: Any
    ours: Any
    theirs: Any
    reason: str


Resolve = Callable[[FieldConflict], Any]


def merge_values(base: Any, ours: Any, theirs: Any, decide: Resolve | None = None) -> tuple[Any, list[FieldConflict]]:
    """The merged value and what is in conflict. A conflict leaves what `decide` gives for it: ours by default."""
    found: list[FieldConflict] = []
    value = _merge(base, ours, theirs, (), found, decide or (lambda c: c.ours))
    return value, found


def at(value: Any, path: Path) -> Any:
    """What lies at a path, ABSENT if nothing does."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(step, ABSENT)
        elif isinstance(value, list):
            value = _order(value) if step == ORDER else next((m for m in value if _is(m, step)), ABSENT)
        else:
            return ABSENT
    return value


def put(value: Any, path: Path, new: Any) -> Any:
    """`value` with something else at a path (ABSENT: nothing). KeyError where the path leads nowhere."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(value, dict):
        inner = put(value.get(step, ABSENT), rest, new)
        out = {k: v for k, v in value.items() if k != step or inner is not ABSENT}
        return out if inner is ABSENT else {**out, step: inner}
    if isinstance(value, list) and step == ORDER:
        return sorted(value, key=lambda m: list(new).index(_id(m)) if _id(m) in new else len(new))
    if isinstance(value, list):
        there = next((i for i, m in enumerate(value) if _is(m, step)), len(value))
        inner = put(value[there] if there < len(value) else ABSENT, rest, new)
        return [*value[:there], *([] if inner is ABSENT else [inner]), *value[there + 1 :]]
    if value is ABSENT and new is ABSENT:
        return ABSENT
    raise KeyError(".".join(path))


def decode(data: bytes) -> Any:
    """JSON as Python values. ValueError where it is none, or says a key twice, or is nested too deep."""
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) != len(pairs):
            raise ValueError("a key stands twice")
        return out

    def refuse(text: str) -> Any:
        raise ValueError(f"{text} is not JSON")

    try:
        return json.loads(data, object_pairs_hook=unique, parse_constant=refuse)
    except RecursionError:
        raise ValueError("nested too deep") from None


class Style(NamedTuple):
    """How a JSON file is laid out."""

    indent: int | str | None
    ascii: bool
    end: str
    separators: tuple[str, str] | None = None

    def encode(self, value: Any) -> bytes:
        layout = {"indent": self.indent, "ensure_ascii": self.ascii, "separators": self.separators}
        return (json.dumps(value, allow_nan=False, **layout) + self.end).encode()  # type: ignore[arg-type]


STORED = Style(2, False, "\n")


def style_of(data: bytes, value: Any) -> Style | None:
    """The layout that gives these bytes again; None where none does, so that a merge would lose something."""
    for indent, separators in ((2, None), (1, None), (4, None), ("\t", None), (None, None), (None, (",", ":"))):
        for ascii_only in (False, True):
            style = Style(indent, ascii_only, "\n" if data.endswith(b"\n") else "", separators)
            if style.encode(value) == data:
                return style
    return None


# --- within ----------------------------------------------------------------------------------------------
def _merge(base: Any, ours: Any, theirs: Any, path: Path, found: list[FieldConflict], decide: Resolve) -> Any:
    if same(ours, theirs) or same(theirs, base):
        return ours
    if same(ours, base):
        return theirs
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return _objects(base if isinstance(base, dict) else {}, ours, theirs, path, found, decide)
    if isinstance(ours, list) and isinstance(theirs, list):
        rows = [base if isinstance(base, list) else [], ours, theirs]
        if _keyed(rows):
            return _members(rows, path, found, decide)
    reason = "both sides changed it"
    if ours is ABSENT or theirs is ABSENT:
        reason = f"removed by {'us' if ours is ABSENT else 'them'}, changed by {'them' if ours is ABSENT else 'us'}"
    elif base is ABSENT:
        reason = "both sides added it"
    conflict = FieldConflict(path, base, ours, theirs, reason)
    found.append(conflict)
    return decide(conflict)


def _objects(
    base: Mapping[str, Any], ours: Mapping[str, Any], theirs: Mapping[str, Any], path: Path,
    found: list[FieldConflict], decide: Resolve,
) -> dict[str, Any]:  # fmt: skip
    out: dict[str, Any] = {}
    for key in _interleaved(list(ours), list(theirs)):
        b, o, t = (side.get(key, ABSENT) for side in (base, ours, theirs))
        value = _merge(b, o, t, (*path, key), found, decide)
        if value is not ABSENT:
            out[key] = value
    return out


def _members(rows: Sequence[list[Any]], path: Path, found: list[FieldConflict], decide: Resolve) -> list[Any]:
    base, ours, theirs = ({str(_id(m)): m for m in row} for row in rows)
    merged: dict[str, Any] = {}
    for key in dict.fromkeys((*ours, *theirs)):
        b, o, t = (side.get(key, ABSENT) for side in (base, ours, theirs))
        value = _merge(b, o, t, (*path, key), found, decide)
        if value is not ABSENT:
            merged[key] = value
    common = base.keys() & ours.keys() & theirs.keys()
    orders = [[k for k in side if k in common] for side in (base, ours, theirs)]
    first, second = list(ours), list(theirs)
    if orders[1] == orders[0]:
        first, second = second, first
    elif orders[2] not in (orders[0], orders[1]):
        conflict = FieldConflict((*path, ORDER), orders[0], orders[1], orders[2], "both sides changed the order")
        found.append(conflict)
        if decide(conflict) == orders[2]:
            first, second = second, first
    return [merged[k] for k in _interleaved(first, second) if k in merged]


def _interleaved(first: list[str], second: list[str]) -> list[str]:
    """`first`, with what only `second` has put behind what stands before it there."""
    out = list(first)
    known = set(first)
    before: str | None = None
    for key in second:
        if key not in known:
            out.insert(out.index(before) + 1 if before is not None else 0, key)
            known.add(key)
        before = key
    return out


def _keyed(rows: Sequence[list[Any]]) -> bool:
    """Whether every member has an id of its own, by one and the same key."""
    members = [m for row in rows for m in row]
    if not members or not all(isinstance(m, dict) for m in members):
        return False
    key = next((k for k in KEYS if all(isinstance(m.get(k), str) for m in members)), None)
    if key is None or any(_id(m) != m[key] for m in members):
        return False
    return all(len({m[key] for m in row}) == len(row) for row in rows)


def _id(member: Any) -> str | None:
    found = next((member[k] for k in KEYS if k in member), None) if isinstance(member, dict) else None
    return found if isinstance(found, str) else None


def _is(member: Any, step: str) -> bool:
    return _id(member) == step


def _order(rows: list[Any]) -> list[Any]:
    return [_id(m) for m in rows]
