"""Fields of records and JSON that differ, as lines: below the part of the record that they belong to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from rover.cli.columns import cut, display_width, pad, shown, wrap
from rover.cli.diff_look import MARK, STYLE, Look
from rover_store.diffs.content import FieldChange


def field_lines(found: Sequence[FieldChange], look: Look, width: int) -> Iterator[str]:
    """Fields below the part of the record that they belong to."""
    for (item, item_id), group in groupby(found, key=lambda f: (f.item, f.id)):
        rows = list(group)
        if not item:
            yield from _rows([(f.path or "(value)", f) for f in rows], look, width)
            continue
        whole = [f for f in rows if not f.field]
        if whole and whole[0].status in ("added", "removed"):
            change = whole[0]
            value = change.new if change.status == "added" else change.old
            said = "" if isinstance(value, str) and value == item_id else f"  {_part_of(value, item_id)}"
            head = f"{MARK[change.status]} {item} {shown(item_id)}{said}"
            yield look.paint(cut(head, width), STYLE[change.status])
            continue
        yield look.paint(cut(f"{item} {shown(item_id)}", width), "head")
        for line in _rows([(f.field or "(value)", f) for f in rows], look, width - 2):
            yield f"  {line}"


def _rows(rows: list[tuple[str, FieldChange]], look: Look, width: int) -> Iterator[str]:
    names = [cut(shown(name), max(16, width // 2)) for name, _ in rows]
    room = min(max(map(display_width, names)), 28)
    for name, (_, f) in zip(names, rows, strict=True):
        if f.status == "reordered":
            order = cut(shown("other order: " + ", ".join(map(str, f.new))), width - room - 4)
            yield f"~ {pad(name, room)}  {look.paint(order, 'note')}"
            continue
        sides = _ids(f.old, f.new) or [brief(v) for v in (f.old, f.new)]
        if f.status != "changed":
            text = sides[f.status == "added"]
            yield look.paint(cut(f"{MARK[f.status]} {pad(name, room)}  {text}", width), STYLE[f.status])
            continue
        needed = sum(map(display_width, sides)) + len("~   -> ") + 1
        if needed + display_width(name) <= width:
            old, new = look.paint(sides[0], "old"), look.paint(sides[1], "new")
            yield f"~ {pad(name, room) if needed + room <= width else name}  {old} -> {new}"
            continue
        yield f"~ {name}"
        for mark, text, style in (("-", sides[0], "old"), ("+", sides[1], "new")):
            for i, line in enumerate(_clipped(wrap(text, width - 6))):
                yield look.paint(f"    {mark if not i else ' '} {line}", style)


def _clipped(found: list[str], most: int = 6) -> list[str]:
    return found if len(found) <= most else [*found[: most - 1], f"… ({len(found) - most + 1} more lines)"]


_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def _ids(old: Any, new: Any) -> list[str]:
    """Two object ids or digests in short, where that still tells them apart."""
    if all(isinstance(v, str) and _ID.fullmatch(v) for v in (old, new)) and old[:12] != new[:12]:
        return [old[:12], new[:12]]
    return []


def _part_of(value: Any, item_id: str) -> str:
    """A part of a record on one line, without what its id says already."""
    if not isinstance(value, dict):
        return brief(value)
    if "statement" in value:  # a requirement: its words say most
        rule = value.get("rule")
        kind = f"{rule['kind']}: " if isinstance(rule, dict) and isinstance(rule.get("kind"), str) else ""
        return shown(kind + str(value["statement"]))
    known = {item_id, *item_id.split(" -> "), *item_id.split("/", 1)}
    rest = {k: v for k, v in value.items() if not (isinstance(v, str) and v in known)}
    short = {k: v[:12] if isinstance(v, str) and _ID.fullmatch(v) else v for k, v in rest.items()}
    return ", ".join(f"{shown(k)} {brief(v)}" for k, v in short.items())


def brief(value: Any) -> str:
    """A JSON value on one line."""
    text = value if isinstance(value, str) and value.startswith("{") else json.dumps(value, ensure_ascii=False)
    return shown(text)
