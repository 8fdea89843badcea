"""Reading a user's files for a profile: bounded, never through links, and only if they hold still.

Every reader gives header and rows as text, at most as many rows as asked. What cannot be used raises
PackageError with the reason; the profile records it and goes on.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import os
import stat
import warnings
from dataclasses import dataclass
from pathlib import Path

from rover.construct.query.duck_tables import Cell, NumberText, json_text, sheet_rows
from rover.construct.query.opening import check_workbook
from rover_store.errors import PackageError

FORMATS = ("csv", "tsv", "xlsx", "json", "jsonl", "md", "txt")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a profile reads at most."""

    files: int = 500
    depth: int = 8
    #: a larger file is looked at by its first `sample_bytes` only, and no task is built on it
    file_bytes: int = 32 << 20
    sample_bytes: int = 1 << 20
    total_bytes: int = 256 << 20
    rows: int = 100_000
    columns: int = 200
    cells: int = 3_000_000


@dataclass(frozen=True, slots=True)
class Blob:
    """A file as it was read. `whole` is false where only the head was; then there is no sha256."""

    path: str
    data: bytes
    size: int
    sha256: str
    whole: bool


@dataclass(frozen=True, slots=True)
class Grid:
    """A table as text. The first row is the header. `whole` is false where more rows follow."""

    sheet: str | None
    rows: list[list[Cell]]
    whole: bool


def read_blob(folder: Path, path: str, limits: Limits) -> Blob:
    """The bytes of a plain file, if it does not change while it is read."""
    handle = os.open(folder / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        before = os.fstat(handle)
        if not stat.S_ISREG(before.st_mode):
            raise PackageError(path, "", "not a plain file")
        whole = before.st_size <= limits.file_bytes
        data = file.read(limits.file_bytes + 1 if whole else limits.sample_bytes)
        after = os.fstat(handle)
    if _state(before) != _state(after) or (whole and len(data) != before.st_size):
        raise PackageError(path, "", "changed while it was read")
    return Blob(path, data, before.st_size, hashlib.sha256(data).hexdigest() if whole else "", whole)


def _state(info: os.stat_result) -> tuple[int, int, int]:
    return info.st_size, info.st_mtime_ns, info.st_ino


def decode(blob: Blob) -> tuple[str, str]:
    """The text of a file and its encoding. PackageError names the first byte that is no UTF-8."""
    encoding = "utf-8-sig" if blob.data.startswith(b"\xef\xbb\xbf") else "utf-8"
    data = blob.data if blob.whole else blob.data[: blob.data.rfind(b"\n") + 1]
    if b"\0" in data:
        raise PackageError(blob.path, "encoding", f"not text: a zero byte at {data.index(0)}")
    try:
        return data.decode(encoding), encoding
    except UnicodeDecodeError as error:
        raise PackageError(blob.path, "encoding", f"not UTF-8 at byte {error.start}") from None


def delimiter(path: str, text: str) -> str:
    """Tab for tsv, else the one of , ; tab | that stands most often in the header outside quotes."""
    if path.lower().endswith(".tsv"):
        return "\t"
    header, quoted = [], False
    for letter in itertools.islice(text.lstrip("\r\n"), 100_000):
        quoted ^= letter == '"'
        if letter == "\n" and not quoted:
            break
        if not quoted:
            header.append(letter)
    return max(",;\t|", key=header.count)


def delimited(blob: Blob, text: str, mark: str, limits: Limits) -> Grid:
    """A csv or tsv."""
    reader = (row for row in csv.reader(io.StringIO(text, newline=""), delimiter=mark) if any(row))
    try:
        rows, more = _take([list(row) for row in itertools.islice(reader, limits.rows + 2)], blob.path, limits)
    except csv.Error as error:
        raise PackageError(blob.path, "", f"not readable as csv ({error})") from None
    return Grid(None, rows, blob.whole and not more)


def objects(blob: Blob, text: str, limits: Limits, *, lines: bool) -> Grid:
    """A list of JSON objects, in one array or one a line."""
    values: object = None
    try:
        if lines:
            numbered = enumerate(text.split("\n"), 1)
            chosen = itertools.islice(((n, line) for n, line in numbered if line.strip()), limits.rows + 2)
            values = [json.loads(line, parse_float=NumberText) for _, line in chosen]
        elif blob.whole:
            values = json.loads(text, parse_float=NumberText)
        else:
            raise PackageError(blob.path, "", f"{blob.size} bytes of JSON, more than {limits.file_bytes}")
    except (ValueError, RecursionError) as error:
        raise PackageError(blob.path, "", f"not valid JSON ({' '.join(str(error).split())[:120]})") from None
    if not isinstance(values, list) or not values or not all(isinstance(v, dict) for v in values):
        raise PackageError(blob.path, "", "not a list of JSON objects")
    names = list(dict.fromkeys(name for value in values for name in value))
    body = [[json_text(value.get(name)) for name in names] for value in values]
    rows, more = _take([[str(name) for name in names], *body], blob.path, limits)
    return Grid(None, rows, blob.whole and not more)


def workbook(blob: Blob, limits: Limits) -> list[Grid]:
    """Every sheet of a workbook that holds anything. Formulas count as the value that was saved with them."""
    import openpyxl

    if not blob.whole:
        raise PackageError(blob.path, "", f"{blob.size} bytes of workbook, more than {limits.file_bytes}")
    check_workbook(blob.data, blob.path)
    try:
        with warnings.catch_warnings(action="ignore"):
            book = openpyxl.load_workbook(io.BytesIO(blob.data), read_only=True, data_only=True)
            grids = []
            for sheet in book.worksheets:
                kept = itertools.islice(sheet_rows(sheet, 2 * limits.rows), limits.rows + 2)
                rows, more = _take(list(kept), blob.path, limits)
                if rows:
                    grids.append(Grid(sheet.title, rows, not more))
            return grids
    except PackageError:
        raise
    except Exception as error:  # openpyxl raises anything on a damaged workbook
        raise PackageError(blob.path, "", f"not a readable workbook ({type(error).__name__})") from None


def _take(rows: list[list[Cell]], path: str, limits: Limits) -> tuple[list[list[Cell]], bool]:
    """At most `limits.rows` rows below the header, and whether there are more."""
    width = len(rows[0]) if rows else 0
    if width > limits.columns:
        raise PackageError(path, "", f"{width} columns, more than {limits.columns}")
    most = max(1, min(limits.rows, limits.cells // max(1, width)))
    return rows[: most + 1], len(rows) > most + 1
