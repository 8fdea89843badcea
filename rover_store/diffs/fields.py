"""JSON field by field. Members of a list are matched by their id, name or path where all have one, else in order.

Records of a package are known by their place: their parts (a requirement, a criterion, an edge) are named as such.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any, NamedTuple

from rover_store.diffs.bounds import CHARACTERS, DEPTH, LISTED, MEMBERS
from rover_store.diffs.content import FieldChange
from rover_store.diffs.record_parts import ITEMS, Item, keyed
from rover_store.diffs.sequence import blocks, first_difference

_ABSENT: Any = object()


class Fields(NamedTuple):
    """What differs, and how many fields it is in all."""
    changes: tuple[FieldChange, ...]
    total: int


def parse(text: str) -> Any:
    """The value of a JSON text. ValueError where it is none or nested too deep to read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def compare_values(old: Any, new: Any, kind: str = "") -> Fields:
    """All fields that differ between two JSON values; `kind` is that of a known record."""
    walk = _Walk(kind)
    walk.value(old, new, "", "", 0)
    return Fields(tuple(walk.found), walk.count)


def one_value(value: Any, kind: str, *, added: bool) -> Fields:
    """A value that only one side has: its top-level fields and the parts of a known record."""
    empty: Any = {} if isinstance(value, dict) else [] if isinstance(value, list) else _ABSENT
    walk = _Walk(kind, deep=False)
    walk.value(*((empty, value) if added else (value, empty)), "", "", 0)
    return Fields(tuple(walk.found), walk.count)


def same(old: Any, new: Any) -> bool:
    """Equality in which 1, 1.0 and true are three values. However deep the values nest."""
    waiting = [(old, new)]
    while waiting:
        a, b = waiting.pop()
        if type(a) is not type(b):
            return False
        if isinstance(a, dict):
            if a.keys() != b.keys():
                return False
            waiting += [(v, b[k]) for k, v in a.items()]
        elif isinstance(a, list):
            if len(a) != len(b):
                return False
            waiting += zip(a, b, strict=True)
        elif a != b and (a == a or b == b):
            return False
    return True


class _Walk:
    """One comparison. `item` is the part of a record that the walk is inside of, as (name, id, length of its path)."""

    def __init__(self, kind: str, *, deep: bool = True) -> None:
        self.kind = kind
        self.deep = deep
        self.found: list[FieldChange] = []
        self.count = 0
        self.item: tuple[str, str, int] = ("", "", 0)

    def value(self, old: Any, new: Any, path: str, place: str, depth: int) -> None:
        """`place` is the path without the members' keys: where the lists of a record are looked up."""
        if depth < DEPTH and isinstance(old, dict) and isinstance(new, dict):
            for name in [*old, *(n for n in new if n not in old)]:
                inner = f"{path}.{field_name(name)}" if path else field_name(name)
                where = f"{place}.{name}" if place else name
                self.member(old.get(name, _ABSENT), new.get(name, _ABSENT), inner, where, depth)
        elif depth < DEPTH and isinstance(old, list) and isinstance(new, list):
            self.members(old, new, path, place, depth)
        elif not same(old, new):
            self.note("changed", path, old, new)

    def member(self, old: Any, new: Any, path: str, place: str, depth: int) -> None:
        if old is _ABSENT or new is _ABSENT:
            whole = new if old is _ABSENT else old
            if isinstance(whole, list) and whole and (self.kind, place) in ITEMS:
                self.members([] if old is _ABSENT else old, [] if new is _ABSENT else new, path, place, depth)
            else:
                self.note("added" if old is _ABSENT else "removed", path, old, new)
        else:
            self.value(old, new, path, place, depth + 1)

    def members(self, old: list[Any], new: list[Any], path: str, place: str, depth: int) -> None:
        known = ITEMS.get((self.kind, place))
        keys = [keyed(side, known) for side in (old, new)]
        if keys[0] is not None and keys[1] is not None:
            self.keyed(keys[0], keys[1], path, place, known, depth)
        else:
            self.sequence(old, new, path, place, depth)

    def keyed(
        self, old: dict[str, Any], new: dict[str, Any], path: str, place: str, known: Item | None, depth: int
    ) -> None:
        for name in [*old, *(n for n in new if n not in old)]:
            inner = f"{path}[{name}]"
            outer = self.item
            if known is not None:
                self.item = (known.name, name, len(inner))
            if known is not None and (name not in old or name not in new):
                self.note("removed" if name in old else "added", inner, old.get(name, _ABSENT), new.get(name, _ABSENT))
            else:
                self.member(old.get(name, _ABSENT), new.get(name, _ABSENT), inner, place, depth)
            self.item = outer
        before, after = [n for n in old if n in new], [n for n in new if n in old]
        if before != after:
            self.note("reordered", path, before, after)

    def sequence(self, old: list[Any], new: list[Any], path: str, place: str, depth: int) -> None:
        if len(old) + len(new) > MEMBERS:
            start = first_difference(old, new)
            if start < max(len(old), len(new)):
                self.note("changed", f"{path}[{start}:]", old[start : start + 10], new[start : start + 10])
            elif not same(old, new):
                self.note("changed", path, len(old), len(new))
            return
        texts = [[_identity(v) for v in side] for side in (old, new)]
        for b in blocks(*texts):
            gone, came = range(b.i1, b.i2), range(b.j1, b.j2)
            paired = min(len(gone), len(came)) if self.deep else 0
            for i, j in zip(gone[:paired], came[:paired], strict=True):
                self.value(old[i], new[j], f"{path}[{j}]", place, depth + 1)
            for i in gone[paired:]:
                self.note("removed", f"{path}[{i}]", old[i], _ABSENT)
            for j in came[paired:]:
                self.note("added", f"{path}[{j}]", _ABSENT, new[j])

    def note(self, status: Any, path: str, old: Any, new: Any) -> None:
        self.count += 1
        if len(self.found) < LISTED:
            name, item_id, length = self.item
            field = path[length:].lstrip(".") if name else ""
            start = 0
            if isinstance(old, str) and isinstance(new, str) and max(len(old), len(new)) > CHARACTERS:
                start = max(0, first_difference(old, new) - 40)
            before, after = (None if v is _ABSENT else shortened(v, start) for v in (old, new))
            self.found.append(FieldChange(path, status, before, after, name, item_id, field))


def field_name(name: str) -> str:
    """A field in a path; a name that would read as more than one is quoted."""
    return name if name and not set(name) & set('.[]"') else json.dumps(name, ensure_ascii=False)


def _text(value: Any) -> str:
    """A value as compact text."""
    try:
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    except RecursionError:
        return "(nested too deep to show)"


def _identity(value: Any) -> Hashable:
    """Equal for equal values alone; what is too deep for its text is equal to nothing, and compared by `same` later."""
    try:
        return json.dumps(value, sort_keys=True)
    except RecursionError:
        return object()


def shortened(value: Any, start: int = 0) -> Any:
    """A value that a result can hold: a long text is cut (what is shown begins at `start`), a large or deep list or
    object becomes its compact text, cut."""
    if isinstance(value, str):
        return _clipped(value, start)
    if isinstance(value, dict | list):
        text = _text(value)
        return value if len(text) <= CHARACTERS and not _deep(value) else _clipped(text, 0)
    return value


def _clipped(text: str, start: int) -> str:
    if len(text) <= CHARACTERS:
        return text
    shown = text[start : start + CHARACTERS]
    right = len(text) - start - len(shown)
    return (f"…({start} before)" if start else "") + shown + (f"…({right} more)" if right > 0 else "")


def _deep(value: Any, most: int = 12) -> bool:
    """Whether lists and objects nest deeper than whoever prints a result wants to follow."""
    level = [value]
    for _ in range(most):
        level = [v for inner in level for v in (inner.values() if isinstance(inner, dict) else inner)]
        level = [v for v in level if isinstance(v, dict | list)]
        if not level:
            return False
    return True
