"""Tables that differ, as lines: columns, then a line a cell, then rows that went and came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rover.cli.columns import cut, display_width, pad, shown
from rover.cli.diff_look import MARK, STYLE, Look
from rover_store.diffs.content import CellChange, RowChange, TableChange

#: cells of a table beyond which it is told first how many there are by column
MANY = 12


def table_lines(table: TableChange, look: Look, width: int) -> Iterator[str]:
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
            old = cut(old, max(3, room - min(display_width(new), room // 2)))  # the shorter one leaves room
            new = cut(new, max(3, room - display_width(old)))
        change = f"{look.paint(old, 'old')} -> {look.paint(new, 'new')}"
        yield f"~ {pad(cut(head, first), first)}  {pad(cut(name, second), second)}  {change}"


def _cell(value: str, formula: str) -> str:
    said = shown(value) if value else "(empty)"
    return f"{shown(formula)} = {said}" if formula and value else shown(formula) or said


def _whole_rows(rows: Sequence[RowChange], mark: str, keyed: bool, width: int) -> Iterator[str]:
    for row in rows:
        head = "" if keyed else f"row {row.number}: "
        yield cut(f"{mark} {head}{shown(' | '.join(row.cells))}", width)
