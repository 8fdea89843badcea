"""The tables of a workspace, to be changed and written back in their own form: csv, tsv, xlsx, json.

Only for making defects: it reads what rover's own builder writes, with a bound on the size.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rover.diagnose.demands import asked
from rover.rollout.env import Env
from rover_store.records import Query
from rover_store.records.query import Source

LARGEST = 8 << 20
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
DAY = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass
class Grid:
    """Header and rows of a table. Cells of csv and tsv are text."""

    path: str
    sheet: str | None
    header: list[str]
    rows: list[list[Any]]
    _render: Callable[[Grid], bytes]

    def render(self) -> bytes:
        return self._render(self)

    def column(self, at: int) -> list[Any]:
        return [row[at] for row in self.rows]

    def numeric(self, at: int) -> bool:
        """Whether all cells that hold something hold a number; at least three do."""
        filled = [c for c in self.column(at) if not empty(c)]
        return len(filled) > 2 and all(is_number(c) for c in filled)

    def dated(self, at: int) -> bool:
        filled = [str(c) for c in self.column(at) if not empty(c)]
        return len(filled) > 2 and all(DAY.match(c) for c in filled)


@dataclass(frozen=True, slots=True)
class Uses:
    """What the answers of a contract do with the columns of one table."""

    source: Source
    #: columns that are added up, averaged, compared in size
    measured: frozenset[str] = frozenset()
    #: columns that a value of the request is compared with
    compared: frozenset[str] = frozenset()
    #: columns that name groups, keys, partners
    named: frozenset[str] = frozenset()

    @property
    def every(self) -> frozenset[str]:
        return self.measured | self.compared | self.named


def read(env: Env, source: Source) -> Grid | None:
    """The table of a source; None where it is no table this module can read."""
    data = env.start.get(source.path, b"")
    ending = source.path.rpartition(".")[2].lower()
    if not data or len(data) > LARGEST:
        return None
    try:
        if ending in ("csv", "tsv"):
            return _text(source.path, data.decode("utf-8"), ending)
        if ending == "json":
            return _objects(source.path, data)
        return _workbook(source, data) if ending == "xlsx" else None
    except (ValueError, csv.Error):
        return None


def uses(env: Env) -> tuple[Uses, ...]:
    """The tables that answers of the contract come from, with what each answer does with their columns."""
    found: dict[Source, list[frozenset[str]]] = {}
    for one in asked(env.contract):
        _walk(one.query, found)
    ordered = sorted(found.items(), key=lambda item: (item[0].path, item[0].sheet or ""))
    return tuple(Uses(source, *sets) for source, sets in ordered)


def empty(cell: Any) -> bool:
    return cell is None or str(cell).strip().lower() in ("", "na", "n/a", "nan", "null")


def is_number(cell: Any) -> bool:
    if isinstance(cell, bool):
        return False
    return isinstance(cell, int | float) or _NUMBER.fullmatch(str(cell).strip()) is not None


def like(cell: Any, value: float, decimals: int) -> Any:
    """A number in the way in which the cell writes one."""
    if isinstance(cell, int | float):
        return round(value, decimals) if decimals else round(value)
    return f"{value:.{decimals}f}"


def decimals_of(cell: Any) -> int:
    """How many decimals a cell is written with."""
    return len(str(cell).strip().partition(".")[2].rstrip("0")) if isinstance(cell, float) else len(
        str(cell).strip().partition(".")[2]
    )


# --- forms ---------------------------------------------------------------------------------------------------
def _text(path: str, text: str, ending: str) -> Grid | None:
    first = text.partition("\n")[0]
    mark = "\t" if ending == "tsv" else max(",;\t|", key=lambda d: (first.count(d), d == ","))
    rows = [line for line in csv.reader(io.StringIO(text, newline=""), delimiter=mark) if any(line)]
    if len(rows) < 3 or any(len(row) != len(rows[0]) for row in rows):
        return None
    end = "\r\n" if "\r\n" in text else "\n"

    def render(grid: Grid) -> bytes:
        out = io.StringIO(newline="")
        csv.writer(out, delimiter=mark, lineterminator=end).writerows([grid.header, *grid.rows])
        return out.getvalue().encode()

    return Grid(path, None, rows[0], rows[1:], render)


def _objects(path: str, data: bytes) -> Grid | None:
    items = json.loads(data)
    if not isinstance(items, list) or len(items) < 2 or not all(isinstance(i, dict) for i in items):
        return None
    header = list(dict.fromkeys(k for item in items for k in item))

    def render(grid: Grid) -> bytes:
        lines = [json.dumps(dict(zip(grid.header, row, strict=True)), ensure_ascii=False) for row in grid.rows]
        return ("[\n  " + ",\n  ".join(lines) + "\n]\n").encode()

    return Grid(path, None, header, [[item.get(k) for k in header] for item in items], render)


def _workbook(source: Source, data: bytes) -> Grid | None:
    from rover.harness.tools.paths import ToolError
    from rover.harness.tools.workbooks import load, save, sheet_of

    try:
        book = load(source.path, data)
        sheet = sheet_of(source.path, book, source.sheet)
    except ToolError:
        return None
    cells = [list(row) for row in sheet.iter_rows(values_only=True)]
    if len(cells) < 3 or any(c is None for c in cells[0]):
        return None
    height = len(cells)

    def render(grid: Grid) -> bytes:
        for r in range(max(height, len(grid.rows) + 1)):
            line = grid.header if r == 0 else grid.rows[r - 1] if r <= len(grid.rows) else [None] * len(grid.header)
            for c, value in enumerate(line):
                cell = sheet.cell(row=r + 1, column=c + 1)
                if cell.value != value or type(cell.value) is not type(value):
                    cell.value = value
        return save(book)

    return Grid(source.path, source.sheet, [str(c) for c in cells[0]], cells[1:], render)


# --- columns -------------------------------------------------------------------------------------------------
def _walk(query: Query, found: dict[Source, list[frozenset[str]]]) -> None:
    tables = [query.source]
    for join in query.joins:
        if isinstance(join.right, Source):
            tables.append(join.right)
        else:
            _walk(join.right, found)
            tables.append(join.right.source)
    measured = {m.column for m in query.measures if m.column and m.fn not in ("count", "count_distinct")}
    measured |= {d.left for d in query.derived} | {d.right for d in query.derived if isinstance(d.right, str)}
    compared = {f.column for f in (*query.filters, *query.having) if f.value is not None}
    named = {*query.group_by, *query.select, *(name for j in query.joins for pair in j.on for name in pair)}
    named |= {m.column for m in query.measures if m.column and m.fn == "count_distinct"}
    for table in tables:
        old = found.setdefault(table, [frozenset(), frozenset(), frozenset()])
        found[table] = [old[0] | measured, old[1] | compared, old[2] | named]
