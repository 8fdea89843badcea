"""Tables for the DuckDB engine: bytes of a csv, tsv, xlsx, json or jsonl file -> typed columns.

Own reading and own typing (regular expressions on the text of the cells). Numbers become integers at the scale
of their column, so that DuckDB computes on them exactly, in 128 bits.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from rover.construct.query.opening import check_workbook, read_bytes
from rover_store.errors import PackageError
from rover_store.records.query import Source

MAX_CELLS = 6_000_000
MAX_COLUMNS = 1_000

_MARKS = {"na", "n/a", "nan", "null"}
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?")

Cell = str | None


@dataclass(frozen=True, slots=True)
class Loaded:
    """One column, ready for DuckDB: its kind, the scale of its numbers, and its values as text that casts."""

    name: str
    kind: str
    scale: int
    values: list[Cell]


def load(root: Path, source: Source) -> list[Loaded]:
    """The named columns of a source, in their order. PackageError names the file and the reason."""
    data = read_bytes(root, source.path)
    ending = source.path.rsplit(".", 1)[-1].lower()
    if ending in ("csv", "tsv"):
        grid = _delimited(data, source.path, "\t" if ending == "tsv" else None)
    elif ending == "xlsx":
        grid = _workbook(data, source.path, source.sheet)
    elif ending in ("json", "jsonl"):
        grid = _objects(data, source.path, lines=ending == "jsonl")
    else:
        raise PackageError(source.path, "", "not a table (csv, tsv, xlsx, json or jsonl)")
    if not grid:
        raise PackageError(source.path, "", "holds no table")
    return columns(grid, source.path)


def _delimited(data: bytes, path: str, delimiter: str | None) -> list[list[Cell]]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PackageError(path, "", f"not UTF-8 at byte {error.start}") from None
    if delimiter is None:
        first = re.sub(r'"[^"]*"', "", text.lstrip("\r\n").split("\n", 1)[0])
        delimiter = max(",;\t|", key=first.count)
    try:
        return [list(row) for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if any(row)]
    except csv.Error as error:
        raise PackageError(path, "", f"not readable as csv ({error})") from None


def _workbook(data: bytes, path: str, sheet: str | None) -> list[list[Cell]]:
    import openpyxl

    check_workbook(data, path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # openpyxl warns of features that it does not keep
            book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        name = sheet if sheet is not None else book.sheetnames[0]
        if name not in book.sheetnames:
            raise PackageError(path, name, "no such sheet")
        grid: list[list[Cell]] = []
        count = 0
        for cells in sheet_rows(book[name]):
            grid.append(cells)
            count += len(cells)
            if count > MAX_CELLS:
                raise PackageError(path, name, "too many cells")
        return grid
    except PackageError:
        raise
    except Exception as error:  # openpyxl raises anything on a damaged workbook
        raise PackageError(path, "", f"not a readable workbook ({type(error).__name__})") from None


def sheet_rows(sheet: Any, max_row: int | None = None) -> Iterator[list[Cell]]:
    """The rows of a sheet that hold anything, as text, without the empty cells at their ends."""
    # the width that a sheet declares is not to be trusted: openpyxl fills every row up to it
    width = min(sheet.max_column or MAX_COLUMNS, MAX_COLUMNS)
    for row in sheet.iter_rows(values_only=True, max_col=width, max_row=max_row):
        cells = [_cell_text(value) for value in row]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield cells


def _cell_text(value: Any) -> Cell:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime.datetime):
        midnight = value.time() == datetime.time()
        return value.date().isoformat() if midnight else value.isoformat(timespec="seconds")
    return str(value)


def _objects(data: bytes, path: str, *, lines: bool) -> list[list[Cell]]:
    try:
        text = data.decode("utf-8-sig")
        if lines:
            rows = [json.loads(line, parse_float=NumberText) for line in text.split("\n") if line.strip()]
        else:
            rows = json.loads(text, parse_float=NumberText)
    except (ValueError, RecursionError):
        raise PackageError(path, "", "not valid JSON") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise PackageError(path, "", "not a list of objects")
    names = list(dict.fromkeys(name for row in rows for name in row))
    grid: list[list[Cell]] = [list(names)] if names else []
    grid += [[json_text(row.get(name)) for name in names] for row in rows]
    return grid


class NumberText(str):
    """A JSON number with a fraction, kept as it is written."""


def json_text(value: Any) -> Cell:
    """A value of a JSON object as text."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    return str(value)


def columns(grid: list[list[Cell]], path: str) -> list[Loaded]:
    """Header and rows as typed columns; a column without a name is left out."""
    header = [(cell or "").strip() for cell in grid[0]]
    named = [name for name in header if name]
    if len(set(named)) != len(named):
        twice = sorted({name for name in named if named.count(name) > 1})
        raise PackageError(path, twice[0], "two columns have this name")
    if len(header) * len(grid) > MAX_CELLS or len(header) > MAX_COLUMNS:
        raise PackageError(path, "", "too many cells")
    for number, row in enumerate(grid[1:], start=2):
        if len(row) > len(header) and any((c or "").strip() for c in row[len(header) :]):
            raise PackageError(path, f"row {number}", f"{len(row)} cells, the header has {len(header)}")
    found = []
    for at, name in enumerate(header):
        if name:
            values = [((row[at] or "").strip() or None) if at < len(row) else None for row in grid[1:]]
            found.append(_typed(name, values))
    return found


def _typed(name: str, values: list[Cell]) -> Loaded:
    bare = [None if v is None or v.lower() in _MARKS else v for v in values]
    real = [v for v in bare if v is not None]
    if not real:
        return Loaded(name, "text", 0, values)
    if all(_INTEGER.fullmatch(v) for v in real):
        return Loaded(name, "integer", 0, bare)
    if all(_NUMBER.fullmatch(v) for v in real):
        numbers = [None if v is None else Decimal(v) for v in bare]
        scale = max(_decimals(n) for n in numbers if n is not None)
        if scale <= 18 and all(abs(n) < 10**18 for n in numbers if n is not None):
            return Loaded(name, "number", scale, [None if n is None else scaled(n, scale) for n in numbers])
    if all(_DATE.fullmatch(v) and _is_moment(v) for v in real):
        return Loaded(name, "date", 0, bare)
    if all((_DATE.fullmatch(v) or _MOMENT.fullmatch(v)) and _is_moment(v) for v in real):
        return Loaded(name, "datetime", 0, bare)
    if all(v.lower() in ("true", "false") for v in real):
        return Loaded(name, "boolean", 0, bare)
    return Loaded(name, "text", 0, values)


def _decimals(number: Decimal) -> int:
    """Digits after the point as written: 12.50 has two."""
    return max(0, -int(number.as_tuple().exponent))


def scaled(number: Decimal, scale: int) -> str:
    """`number` times ten to the `scale`, as the text of an integer. `scale` is at least its own."""
    sign, digits, exponent = number.as_tuple()
    value = int("".join(map(str, digits))) * 10 ** (int(exponent) + scale)
    return str(-value if sign else value)


def _is_moment(text: str) -> bool:
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def parse_number(text: str) -> Decimal | None:
    """A given written as text, as a number; None where it is none."""
    return Decimal(text) if _NUMBER.fullmatch(text) else None


def parse_moment(text: str) -> bool:
    """Whether a given written as text is a date or a moment."""
    return bool(_DATE.fullmatch(text) or _MOMENT.fullmatch(text)) and _is_moment(text)
