"""Tables for the pandas engine: bytes of a file -> a frame of Python values, by its own rules of typing.

Independent of the DuckDB engine's reader on purpose: pandas parses the files, and cells are typed by trying
to make Decimals, dates and truth values of them.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from rover.construct.query.opening import check_workbook, read_bytes
from rover_store.errors import PackageError
from rover_store.records.query import Source

LARGEST = 6_000_000  # cells
_MISSING = frozenset({"na", "n/a", "nan", "null"})
_DIGITS = frozenset("0123456789")


@dataclass(frozen=True, slots=True)
class Typed:
    """A frame of plain Python objects (None where empty) and the type of each column."""

    frame: pd.DataFrame
    types: dict[str, str]


def read_frame(root: Path, source: Source) -> Typed:
    """Read and type a source. PackageError names the file and the reason."""
    data = read_bytes(root, source.path)
    suffix = PurePosixPath(source.path).suffix.lower()
    readers: dict[str, Callable[[], list[list[Any]]]] = {
        ".csv": lambda: _text_rows(source.path, data, None),
        ".tsv": lambda: _text_rows(source.path, data, "\t"),
        ".xlsx": lambda: _sheet_rows(source, data),
        ".json": lambda: _record_rows(source.path, _json(source.path, data)),
        ".jsonl": lambda: _record_rows(source.path, _json_lines(source.path, data)),
    }
    if suffix not in readers:
        raise PackageError(source.path, "", "no reader for this kind of file")
    rows = readers[suffix]()
    if not rows:
        raise PackageError(source.path, "", "no header")
    return _typed_frame(source.path, rows)


def _text_rows(path: str, data: bytes, separator: str | None) -> list[list[Any]]:
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise PackageError(path, "", "is not UTF-8") from None
    if separator is None:
        separator = _separator(text)
    width = _width(text, separator)
    try:
        frame = pd.read_csv(
            io.StringIO(text), sep=separator, header=None, names=list(range(width)), dtype=object, engine="c",
            keep_default_na=False, na_filter=False, skip_blank_lines=True, index_col=False, on_bad_lines="error",
        )  # fmt: skip
    except pd.errors.EmptyDataError:
        return []
    except (ValueError, pd.errors.ParserError) as error:
        raise PackageError(path, "", " ".join(str(error).split())[:160]) from None
    return [row for row in frame.to_numpy(dtype=object).tolist() if any(str(c) != "" for c in row)]


def _separator(text: str) -> str:
    """The one of , ; tab | that stands most often in the header, outside of quotes."""
    counts = dict.fromkeys(",;\t|", 0)
    quoted = False
    for letter in text.lstrip("\r\n"):
        if letter == '"':
            quoted = not quoted
        elif letter == "\n":
            break
        elif not quoted and letter in counts:
            counts[letter] += 1
    return max(counts, key=lambda letter: counts[letter])


def _width(text: str, separator: str) -> int:
    """Upper bound of the cells in a row: separators within quotes count too, which only adds empty columns."""
    widest = max((line.count(separator) for line in text.split("\n")), default=0) + 1
    if widest > 5_000:
        raise PackageError("table", "", f"{widest} columns")
    return widest


def _sheet_rows(source: Source, data: bytes) -> list[list[Any]]:
    check_workbook(data, source.path)
    try:
        with warnings.catch_warnings(action="ignore"), pd.ExcelFile(io.BytesIO(data), engine="openpyxl") as book:
            sheets = [str(name) for name in book.sheet_names]
            sheet = source.sheet if source.sheet is not None else sheets[0]
            if sheet not in sheets:
                raise PackageError(source.path, sheet, "not in the workbook")
            frame = book.parse(sheet, header=None, dtype=object, keep_default_na=False, na_filter=False)
    except PackageError:
        raise
    except Exception as error:  # a damaged workbook makes openpyxl raise anything
        raise PackageError(source.path, "", f"workbook cannot be read: {type(error).__name__}") from None
    rows = frame.astype(object).to_numpy().tolist()
    return [row for row in rows if any(_as_text(c) for c in row)]


def _json(path: str, data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8").removeprefix("\ufeff"), parse_float=Decimal)
    except (ValueError, RecursionError, InvalidOperation) as error:
        raise PackageError(path, "", f"JSON does not parse: {type(error).__name__}") from None


def _json_lines(path: str, data: bytes) -> list[Any]:
    return [_json(path, line) for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]


def _record_rows(path: str, records: Any) -> list[list[Any]]:
    if not isinstance(records, list) or any(not isinstance(r, dict) for r in records):
        raise PackageError(path, "", "JSON is not a list of objects")
    header: dict[str, None] = {}
    for record in records:
        header.update(dict.fromkeys(record))
    return [list(header), *([record.get(name) for name in header] for record in records)] if header else []


def _as_text(value: Any) -> str | None:
    """A cell as text, None where there is none."""
    if value is None or value is pd.NaT:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return str(value) if value.is_finite() else None
    if isinstance(value, float):
        if value != value:
            return None
        return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
    if isinstance(value, dt.datetime):
        return str(value.date()) if value == dt.datetime.combine(value.date(), dt.time()) else value.strftime(
            "%Y-%m-%dT%H:%M:%S"
        )  # fmt: skip
    if isinstance(value, list | dict):
        return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return str(value).strip() or None


def _typed_frame(path: str, rows: list[list[Any]]) -> Typed:
    header = [(_as_text(cell) or "") for cell in rows[0]]
    while header and not header[-1]:
        header.pop()
    body = rows[1:]
    if len(header) * len(body) > LARGEST:
        raise PackageError(path, "", f"more than {LARGEST} cells")
    for row in body:
        if any(_as_text(cell) for cell in row[len(header) :]):
            raise PackageError(path, "", "a row has more cells than the header")
    names = [name for name in header if name]
    if len(names) > len(set(names)):
        raise PackageError(path, "", "the header names a column twice")
    columns: dict[str, pd.Series[Any]] = {}
    types: dict[str, str] = {}
    for position, name in enumerate(header):
        if name:
            cells = [_as_text(row[position]) if position < len(row) else None for row in body]
            types[name], values = infer(cells)
            columns[name] = pd.Series(values, dtype=object)
    return Typed(pd.DataFrame(columns, dtype=object), types)


def infer(cells: list[str | None]) -> tuple[str, list[Any]]:
    """The type of a column and its values: the first of number, date, datetime, boolean that fits every cell."""
    present = [c for c in cells if c is not None and c.lower() not in _MISSING]
    if present:
        for name, convert in (("number", number), ("date", _day), ("datetime", moment), ("boolean", _truth)):
            values = {cell: convert(cell) for cell in set(present)}
            if None not in values.values():
                if name == "number" and all(_whole(cell) for cell in values):
                    name = "integer"
                return name, [None if c is None else values.get(c) for c in cells]
    return "text", list(cells)


def number(cell: str) -> Decimal | None:
    """A cell as a number within 18 digits on both sides of the point; None for codes, words and the rest."""
    body = cell[1:] if cell.startswith("-") else cell
    mantissa, mark, exponent = body.lower().partition("e")
    if mark and not (set(exponent.lstrip("+-")) <= _DIGITS and 0 < len(exponent.lstrip("+-")) <= 2):
        return None
    if not mantissa or mantissa == "." or not set(mantissa) <= _DIGITS | {"."}:
        return None
    if len(mantissa) > 1 and mantissa[0] == "0" and mantissa[1] != ".":
        return None
    try:
        value = Decimal(cell)
    except InvalidOperation:
        return None
    exponent_of = value.as_tuple().exponent
    fits = isinstance(exponent_of, int) and exponent_of >= -18 and abs(value) < Decimal(10) ** 18
    return value if fits else None


def _whole(cell: str) -> bool:
    return set(cell.removeprefix("-")) <= _DIGITS


def _day(cell: str) -> dt.date | None:
    if len(cell) != 10 or cell[4] != "-" or cell[7] != "-" or not cell.isascii():
        return None
    try:
        return dt.date(int(cell[:4]), int(cell[5:7]), int(cell[8:])) if _plain_digits(cell, "-") else None
    except ValueError:
        return None


def moment(cell: str) -> dt.datetime | None:
    """A cell as a date or a date and time without zone; None where it is neither."""
    day = _day(cell[:10])
    if day is None:
        return None
    if len(cell) == 10:
        return dt.datetime.combine(day, dt.time())
    clock = cell[11:]
    if cell[10] not in "T " or len(clock) not in (5, 8) or not _plain_digits(clock, ":"):
        return None
    try:
        return dt.datetime.combine(day, dt.time.fromisoformat(clock))
    except ValueError:
        return None


def _plain_digits(text: str, mark: str) -> bool:
    """Two digits (four for a year) between the marks: 2024-01-31, 10:30:00."""
    parts = text.split(mark)
    widths = [4, 2, 2] if mark == "-" else [2] * len(parts)
    return [len(p) for p in parts] == widths and set("".join(parts)) <= _DIGITS


def _truth(cell: str) -> bool | None:
    return {"true": True, "false": False}.get(cell.lower())
