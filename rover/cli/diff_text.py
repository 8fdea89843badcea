"""What differs in one file, as lines for a terminal: fields, cells, hunks, images, members, notes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from rover.cli.columns import Colours, cut, display_width, pad, shown, wrap
from rover.cli.output import counted
from rover_store.diffs.content import (
    CellChange,
    Content,
    Counts,
    FieldChange,
    Hunk,
    Image,
    RowChange,
    TableChange,
    TextPart,
)

#: cells of a table beyond which it is told first how many there are by column
MANY = 12
MARK = {"added": "+", "removed": "-", "changed": "~", "reordered": "~"}
STYLE = {"added": "new", "removed": "old", "changed": "note", "reordered": "note"}


@dataclass(frozen=True, slots=True)
class Look:
    """How to render. `limit`: lines of one file before the rest is only counted; 0 for all."""

    width: int = 80
    limit: int = 60
    side_by_side: bool = False
    words: bool = False
    #: whether lines of text go on below where they are wider; else they stay whole, for pipes
    wrapped: bool = False
    colours: Colours = field(default_factory=lambda: Colours(False))

    def paint(self, text: str, style: str) -> str:
        return self.colours.paint(text, style)


def summary(found: Content) -> str:
    """A file's difference in a few words: `2 cells, +1 -3 rows`."""
    c = found.counts
    out = []
    if found.old_size is None or found.new_size is None:
        size = found.new_size if found.old_size is None else found.old_size
        rows = c.rows_added + c.rows_removed
        lines = c.lines_added + c.lines_removed
        if found.tables:
            out.append(f"{rows:,} row{'s' * (rows != 1)}, {counted(len(found.tables[0].header), 'column')}")
        elif lines:
            out.append(f"{lines:,} line{'s' * (lines != 1)}")
        return ", ".join([*out, size_of(size)] if size is not None else out)
    parts = counted_parts(c)
    out = [parts] if parts else []
    if found.kind in ("bytes", "image", "archive") and found.old_size != found.new_size:
        before, after = size_of(found.old_size), size_of(found.new_size)
        same_unit = before.split()[1:] == after.split()[1:]
        out.append(f"{before.split()[0] if same_unit else before} -> {after}")
    elif found.kind in ("bytes", "image", "archive") and not out:
        out.append(size_of(found.new_size))
    keys = {t.key for t in found.tables if t.key}
    by = f" (by {', '.join(next(iter(keys)))})" if len(keys) == 1 and len(found.tables) == 1 else ""
    return ", ".join(out) + shown(by)


def counted_parts(c: Counts) -> str:
    """`3 fields, 2 cells, +1 -3 rows`."""
    one = [(c.fields, "field"), (c.columns, "column"), (c.cells, "cell")]
    out = [counted(n, noun) for n, noun in one if n]
    for came, gone, noun in ((c.rows_added, c.rows_removed, "row"), (c.lines_added, c.lines_removed, "line")):
        signs = [f"+{came}"] * bool(came) + [f"-{gone}"] * bool(gone)
        if signs:
            out.append(f"{' '.join(signs)} {noun}{'s' * (came + gone != 1)}")
    if c.members:
        out.append(counted(c.members, "member"))
    return ", ".join(out)


def size_of(size: int | None) -> str:
    if size is None:
        return "nothing"
    if size < 10_000:
        return counted(size, "byte")
    return f"{size / 1000:,.0f} kB" if size < 10_000_000 else f"{size / 1e6:,.0f} MB"


def lines(found: Content, look: Look, indent: str) -> Iterator[str]:
    """All lines of a file's difference; what is beyond the limit is counted in the last one."""
    left = look.limit or 10**9
    hidden = 0
    for line in _all(found, look, len(indent)):
        if left > 0:
            yield indent + line if line else line
            left -= 1
        else:
            hidden += 1
    if hidden:
        yield indent + look.paint(f"… {counted(hidden, 'more line')}; --full shows all", "note")


def _all(found: Content, look: Look, used: int) -> Iterator[str]:
    width = look.width - used
    for note in found.notes:
        for i, line in enumerate(wrap(shown(note), width - 2)):
            yield look.paint(f"{'  ' if i else '! '}{line}", "note")
    yield from _images(found.old_image, found.new_image, look)
    yield from _fields(found.fields, look, width)
    for table in found.tables:
        yield from _table(table, look, width)
    for part in found.parts:
        yield from _part(part, look, width)
    for member in found.members:
        sizes = " -> ".join(size_of(s) for s in (member.old_size, member.new_size) if s is not None)
        text = f"{MARK[member.status]} {shown(member.name)}  {sizes}"
        yield look.paint(cut(text, width), STYLE[member.status])


def _images(old: Image | None, new: Image | None, look: Look) -> Iterator[str]:
    for mark, image, style in (("-", old, "old"), ("+", new, "new")):
        if image is not None:
            mode = f", {image.mode}" if image.mode else ""
            text = f"{mark} {image.format} {image.width} x {image.height}{mode}, {size_of(image.size)}"
            yield look.paint(shown(f"{text}, sha256 {image.sha256[:12]}"), style)


# --- fields ----------------------------------------------------------------------------------------------
def _fields(found: Sequence[FieldChange], look: Look, width: int) -> Iterator[str]:
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


# --- tables ----------------------------------------------------------------------------------------------
def _table(table: TableChange, look: Look, width: int) -> Iterator[str]:
    indent = ""
    if table.name:
        was = f", was {table.old_name}" if table.old_name else ""
        by = f" (by {', '.join(table.key)})" if table.key else ""
        sign = f"{MARK[table.status]} " if table.status != "changed" else ""
        style = STYLE[table.status] if table.status != "changed" else "head"
        sizes = f", {table.old_rows or table.new_rows} rows" if table.status != "changed" else ""
        called = table.name if table.name.startswith("anchor ") else f"sheet {table.name}"
        yield look.paint(cut(shown(f"{sign}{called}{was}{by}{sizes}"), width), style)
        indent, width = "  ", width - 2
    if table.status != "changed":
        if table.header:
            yield indent + cut(shown("columns: " + ", ".join(table.header)), width)
        return
    columns = table.columns
    for name in columns.removed:
        yield indent + look.paint(cut(f"- column {shown(name)}", width), "old")
    for name in columns.added:
        yield indent + look.paint(cut(f"+ column {shown(name)}", width), "new")
    for old, new in columns.renamed:
        yield indent + look.paint(cut(f"~ column {shown(old)} -> {shown(new)}", width), "note")
    if columns.reordered:
        yield indent + look.paint(cut("~ other order of columns: " + shown(", ".join(table.header)), width), "note")
    if table.rows_reordered:
        yield indent + look.paint("~ other order of rows", "note")
    by_column = Counter(c.column for c in table.cells)
    if len(table.cells) > MANY and len(by_column) > 1 and len(table.cells) == table.counts[0]:
        said = ", ".join(f"{n} in {shown(name)}" for name, n in by_column.most_common())
        yield indent + look.paint(cut(f"! {said}", width), "note")
    for line in _cells(table.cells, bool(table.key), look, width):
        yield indent + line
    for rows, mark, style in ((table.rows_removed, "-", "old"), (table.rows_added, "+", "new")):
        for line in _whole_rows(rows, mark, bool(table.key), width):
            yield indent + look.paint(line, style)
    if table.omitted:
        yield indent + look.paint(f"… {table.omitted:,} more cells and rows", "note")


def _cells(cells: Sequence[CellChange], keyed: bool, look: Look, width: int) -> Iterator[str]:
    """One line a cell in three columns: row, column, old -> new."""
    if not cells:
        return
    rows = [shown(c.row if keyed else f"row {c.row}") for c in cells]
    names = [shown(c.column) for c in cells]
    first = min(max(map(display_width, rows)), max(8, width // 4))
    second = min(max(map(display_width, names)), max(8, width // 4))
    before = ""
    for cell, row, name in zip(cells, rows, names, strict=True):
        head = "" if row == before else row  # a row with several cells is named once
        before = row
        room = width - first - second - 10
        old, new = _cell(cell.old, cell.old_formula), _cell(cell.new, cell.new_formula)
        if display_width(old) + display_width(new) > room:
            old, new = cut(old, max(6, room // 2)), cut(new, max(6, room - min(display_width(old), room // 2)))
        change = f"{look.paint(old, 'old')} -> {look.paint(new, 'new')}"
        yield f"~ {pad(cut(head, first), first)}  {pad(cut(name, second), second)}  {change}"


def _cell(value: str, formula: str) -> str:
    said = shown(value) if value else "(empty)"
    return f"{shown(formula)} = {said}" if formula and value else shown(formula) or said


def _whole_rows(rows: Sequence[RowChange], mark: str, keyed: bool, width: int) -> Iterator[str]:
    for row in rows:
        head = "" if keyed else f"row {row.number}: "
        yield cut(f"{mark} {head}{shown(' | '.join(row.cells))}", width)


# --- text ------------------------------------------------------------------------------------------------
def _part(part: TextPart, look: Look, width: int) -> Iterator[str]:
    if part.name:
        sign = f"{MARK[part.status]} " if part.status != "changed" else ""
        yield look.paint(f"{sign}{shown(part.name)}", "head")
    for hunk in part.hunks:
        if part.status == "changed":
            spans = f"-{_span(hunk.old_start, hunk.old_count)} +{_span(hunk.new_start, hunk.new_count)}"
            yield look.paint(f"@@ {spans} @@", "hunk")
        if look.side_by_side and part.status == "changed":
            from rover.cli.diff_columns import side_by_side

            yield from side_by_side(hunk, look, width)
        else:
            yield from _unified(hunk, look, width)
    if part.omitted:
        yield look.paint(f"… {part.omitted:,} more changed lines", "note")


def _span(start: int, count: int) -> str:
    return f"{start}" if count == 1 else f"{start},{count}"


def _unified(hunk: Hunk, look: Look, width: int) -> Iterator[str]:
    from rover.cli.diff_columns import one_line, painted, pieces, runs

    for gone, came, same in runs(hunk):
        pairs = list(zip(gone, came, strict=False)) if len(gone) == len(came) else []
        if look.words and pairs:
            yield from (line for a, b in pairs for line in _laid(one_line(a, b, look), width, look))
        elif look.colours.on and pairs:
            both = [pieces(a, b) for a, b in pairs]
            room = width - 1 if look.wrapped else None
            for side, mark, style in ((0, "-", "old"), (1, "+", "new")):
                for row in both:
                    for i, (_, line) in enumerate(painted(row[side], style, look, room)):
                        yield look.paint(" " if i else mark, style) + line
        else:
            for lines_of, mark, style in ((gone, "-", "old"), (came, "+", "new")):
                for line in lines_of:
                    yield from (look.paint(x, style) for x in _laid(mark + shown(line), width, look))
        for line in same:
            yield from (x.rstrip() for x in _laid(f" {shown(line)}", width, look))


def _laid(line: str, width: int, look: Look) -> list[str]:
    """A line with its mark; what does not fit goes on below, one column in. Never cut inside a colour."""
    if not look.wrapped or display_width(line) <= width or "\x1b" in line:
        return [line]
    return [(" " if i else line[0]) + piece for i, piece in enumerate(wrap(line[1:], width - 1))]
