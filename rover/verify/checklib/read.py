"""Readers of deliverables: tolerant of how a file is written, never of what cannot be read.

Unreadable is the deliverable's fault (absent, a link, too large, broken, password-protected, a zip bomb) and
carries the reason. Sizes are bounded before anything is parsed (see bounds), so that no deliverable can exhaust
the grader. What was read, or could not be, is kept: the checks of one grading are forked after it.
"""

from __future__ import annotations

import csv
import io
import json
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from rover.verify.checklib.bounds import (
    MAX_BYTES,
    MAX_CELLS,
    MAX_CHARACTERS,
    MAX_JSON,
    MAX_LINES,
    MAX_TEXT,
    Unreadable,
    check_book,
    check_marks,
    within_memory,
)
from rover.verify.checklib.values import Cell, folded, plain

BOOKS = (".xlsx", ".xlsm")


@dataclass(frozen=True)
class Table:
    """Column names as text and rows of plain cells. `name` is the file, for reasons."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    name: str = "table"
    #: cells whose value is a formula without a stored result
    formulas: tuple[str, ...] = field(default=(), compare=False)

    def index(self, column: str) -> int:
        """Position of a column; upper and lower case and spaces do not matter. Unreadable where there is none."""
        exact = [i for i, c in enumerate(self.columns) if c == column]
        hits = exact or [i for i, c in enumerate(self.columns) if folded(c) == folded(column)]
        if not hits:
            raise Unreadable(f"{self.name} has no column {column!r}")
        if len(hits) > 1:
            raise Unreadable(f"{self.name} has {len(hits)} columns named {column!r}")
        return hits[0]

    def column(self, name: str) -> list[Cell]:
        i = self.index(name)
        return [row[i] for row in self.rows]

    def pick(self, columns: Sequence[str]) -> list[tuple[Cell, ...]]:
        """The rows, reduced to some columns in that order."""
        at = [self.index(c) for c in columns]
        return [tuple(row[i] for i in at) for row in self.rows]


def name_of(path: Path | str) -> str:
    """The path as the policy knows it: without the folder the state lies in."""
    parts = Path(path).parts
    return "/".join(parts[1:]) if len(parts) > 1 and parts[0] in ("end", "start") else Path(path).name


def raw(path: Path | str, limit: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file. Links are not followed."""
    name = name_of(path)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Unreadable(f"{name} does not exist") from None
    except (OSError, ValueError) as error:
        raise Unreadable(f"{name} cannot be opened ({getattr(error, 'strerror', None) or error})") from None
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise Unreadable(f"{name} is not a regular file")
        if info.st_size > limit:
            raise Unreadable(f"{name} is too large ({info.st_size} bytes, at most {limit})")
        with os.fdopen(fd, "rb", closefd=False) as f:
            return f.read()
    finally:
        os.close(fd)


def decode(data: bytes, name: str) -> str:
    """Text of UTF-8, UTF-16 with its mark, or else Windows-1252; line ends become newlines."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        try:
            found = data.decode("utf-16")
        except UnicodeDecodeError:
            raise Unreadable(f"{name} is not readable as UTF-16") from None
    else:
        try:
            found = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            found = data.decode("cp1252", errors="replace")
    if "\0" in found:
        raise Unreadable(f"{name} holds NUL bytes: not a text file")
    return found.replace("\r\n", "\n").replace("\r", "\n")


@within_memory
def text(path: Path | str) -> str:
    """Written text, of at most 1 MiB and 50,000 lines."""
    name = name_of(path)
    found = decode(raw(path, MAX_TEXT), name)
    if (lines := found.count("\n")) > MAX_LINES:
        raise Unreadable(f"{name} is too large ({lines} lines, at most {MAX_LINES})")
    return found


@within_memory
def json_value(path: Path | str) -> Any:
    """Any JSON value. NaN and Infinity are not JSON."""
    name = name_of(path)
    source = decode(raw(path, MAX_JSON), name)

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is not JSON")

    try:
        return json.loads(source, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{name} is not valid JSON ({' '.join(str(error).split())[:120]})") from None


def json_object(path: Path | str) -> dict[str, Any]:
    found = json_value(path)
    if not isinstance(found, dict):
        raise Unreadable(f"{name_of(path)} holds no JSON object")
    return found


#: Tables and workbooks by path, sheet or kind, and stat; in place of what cannot be read, why.
_CACHE: dict[tuple[object, ...], Any] = {}
_KEPT = 64


def _once(kind: str, path: Path | str, which: object, read: Callable[[], Any]) -> Any:
    """What `read` gives for this file, read once as long as the file stays as it is."""
    try:
        info = os.lstat(path)
    except (OSError, ValueError):
        return read()
    key = (kind, str(path), which, info.st_ino, info.st_mtime_ns, info.st_size)
    if key not in _CACHE:
        if len(_CACHE) >= _KEPT:
            _CACHE.clear()
        try:
            _CACHE[key] = read()
        except Unreadable as reason:
            _CACHE[key] = Unreadable(*reason.args)
    found = _CACHE[key]
    if isinstance(found, Unreadable):
        raise Unreadable(*found.args)
    return found


def forget(*, start: bool) -> None:
    """Let go of what was read. Without `start` the tables of the start stay: nobody can change them, and the files lie
    there as they lay."""
    for key in [k for k in _CACHE if start or k[0] != "table" or not str(k[1]).startswith("start/")]:
        del _CACHE[key]


def table(path: Path | str, sheet: str | None = None) -> Table:
    """The table in a file, by its ending: csv, tsv, xlsx (first sheet unless named), json, jsonl."""
    found: Table = _once("table", path, sheet, lambda: _table(path, sheet))
    return found


@within_memory
def _table(path: Path | str, sheet: str | None) -> Table:
    ending = Path(path).suffix.lower()
    if ending in BOOKS:
        return _sheet_table(path, sheet)
    if ending in (".json", ".jsonl"):
        return _objects_table(path, ending)
    if ending in (".csv", ".tsv", ".txt"):
        return _delimited(path, ending)
    raise Unreadable(f"{name_of(path)} is no table (csv, tsv, xlsx, json or jsonl)")


def _delimited(path: Path | str, ending: str) -> Table:
    name = name_of(path)
    source = decode(raw(path), name)
    first = next((line for line in source.split("\n") if line.strip()), "")
    if not first:
        raise Unreadable(f"{name} is empty")
    delimiter = "\t" if ending == ".tsv" and "\t" in first else max(",;\t|", key=lambda d: (first.count(d), d == ","))
    check_marks(source, delimiter, name)
    try:
        lines = list(csv.reader(io.StringIO(source, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise Unreadable(f"{name} is not a readable table ({error})") from None
    return _ragged([line for line in lines if any(c.strip() for c in line)], name)


def _ragged(lines: Sequence[Sequence[Cell]], name: str) -> Table:
    """A table of lines: the first is the header; short lines are filled up, long ones refused."""
    if not lines:
        raise Unreadable(f"{name} is empty")
    header = [plain(c).strip() for c in lines[0]]
    while header and not header[-1]:
        header.pop()
    width, rows = len(header), []
    if width * len(lines) > MAX_CELLS:
        raise Unreadable(f"{name} is too large ({len(lines)} rows)")
    for i, line in enumerate(lines[1:], 2):
        if any(c not in (None, "") for c in line[width:]):
            raise Unreadable(f"{name}: row {i} has more cells than the header ({width})")
        rows.append(tuple(line[:width]) + (None,) * (width - len(line)))
    return Table(tuple(header), tuple(rows), name)


def _objects_table(path: Path | str, ending: str) -> Table:
    name = name_of(path)
    if ending == ".json":
        items = json_value(path)
    else:
        try:
            source = decode(raw(path, MAX_JSON), name)
            items = [json.loads(line) for line in source.split("\n") if line.strip()]
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"{name} is not valid JSON Lines ({' '.join(str(error).split())[:120]})") from None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Unreadable(f"{name} holds no list of objects")
    return objects_table(items, name)


def objects_table(items: Sequence[dict[str, Any]], name: str) -> Table:
    """A list of objects as a table: columns in the order in which they first appear."""
    columns = tuple(dict.fromkeys(key for item in items for key in item))
    if len(columns) * len(items) > MAX_CELLS:
        raise Unreadable(f"{name} is too large ({len(items)} objects)")
    return Table(columns, tuple(tuple(item.get(c) for c in columns) for item in items), name)


def workbook(path: Path | str, *, values: bool = False) -> Any:
    """The openpyxl workbook of a file, for the caller alone; `values` gives the stored results of formulas."""
    return _workbook(path, values)


def shared_workbook(path: Path | str, *, values: bool = False) -> Any:
    """The same, read once for all who ask: it must not be changed."""
    return _once("book", path, values, lambda: _workbook(path, values))


def read_ahead(path: Path | str) -> None:
    """Read what checks are going to ask for, so that they share it. Unreadable where it cannot be read."""
    if Path(path).suffix.lower() in BOOKS:
        book = shared_workbook(path)
        if any(_is_formula(c.value) for w in book.worksheets for c in w._cells.values()):
            shared_workbook(path, values=True)
    table(path)


@within_memory
def _workbook(path: Path | str, values: bool) -> Any:
    from openpyxl import load_workbook

    name, data = name_of(path), raw(path)
    check_book(data, name)
    try:
        return load_workbook(io.BytesIO(data), data_only=values)
    except Exception as error:  # openpyxl raises nearly anything on a broken file
        raise Unreadable(f"{name} is not a readable workbook ({type(error).__name__})") from None


def sheets(path: Path | str) -> tuple[str, ...]:
    return tuple(shared_workbook(path).sheetnames)


def _sheet_table(path: Path | str, sheet: str | None) -> Table:
    name, book = name_of(path), shared_workbook(path)
    title = sheet_title(book, sheet, name)
    lines = grid(book[title], name)
    at = [(r, c) for r, line in enumerate(lines) for c, v in enumerate(line) if _is_formula(v)]
    formulas = tuple(f"{title}!R{r + 1}C{c + 1}" for r, c in at)
    if formulas:  # a result that was stored counts as the value; without one the formula stays as text
        stored = shared_workbook(path, values=True)[title]._cells
        for r, c in at:
            cell = stored.get((r + 1, c + 1))
            if cell is not None and cell.value is not None:
                lines[r][c] = _cell(cell.value)
    full = [line for line in lines if any(v not in (None, "") for v in line)]
    found = _ragged(full, f"{name}, sheet {title}" if sheet else name)
    return Table(found.columns, found.rows, found.name, formulas)


def sheet_title(book: Any, sheet: str | None, name: str) -> str:
    """The real title of a sheet: the first one where none is named."""
    titles = [w.title for w in book.worksheets]
    if not titles:
        raise Unreadable(f"{name} has no worksheet")
    if sheet is None:
        return str(titles[0])
    hits = [t for t in titles if t == sheet] or [t for t in titles if folded(t) == folded(sheet)]
    if not hits:
        raise Unreadable(f"{name} has no sheet {sheet!r} (it has {', '.join(titles)[:200]})")
    return str(hits[0])


def grid(sheet: Any, name: str) -> list[list[Cell]]:
    """Every cell of a worksheet as a plain value. Cells that are not in the file cost nothing: openpyxl's own
    iteration would make an object of each."""
    cells = getattr(sheet, "_cells", None)
    if cells is None:
        raise Unreadable(f"{name}: {sheet.title} is a chart, not a sheet of cells")
    filled = {at: _cell(cell.value) for at, cell in cells.items() if cell.value is not None}
    height, width = max((r for r, _ in filled), default=0), max((c for _, c in filled), default=0)
    if height * width > MAX_CELLS:
        raise Unreadable(f"{name}: sheet {sheet.title} spans too many cells")
    lines: list[list[Cell]] = [[None] * width for _ in range(height)]
    for (row, column), value in filled.items():
        if isinstance(value, str) and len(value) > MAX_CHARACTERS:
            raise Unreadable(f"{name}: a cell holds {len(value)} characters, at most {MAX_CHARACTERS}")
        lines[row - 1][column - 1] = value
    return lines


def _is_formula(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("=")


def _cell(value: Any) -> Cell:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime):
        midnight = (value.hour, value.minute, value.second, value.microsecond) == (0, 0, 0, 0)
        return value.date().isoformat() if midnight else value.isoformat(sep=" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    return str(getattr(value, "text", value))  # array and data-table formulas
