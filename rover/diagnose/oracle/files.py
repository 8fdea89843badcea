"""The oracle's own readers of deliverables. Runs inside the sandbox; what a file does wrong is `Unreadable`."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Spec = Mapping[str, Any]
_LIMIT = 64 << 20


class Unreadable(Exception):  # a finding about a deliverable, not an error of the oracle
    """A deliverable that cannot be read, with why."""


class Grid(NamedTuple):
    """A table: header as written, rows as lists of cells of the header's length."""

    header: list[str]
    rows: list[list[Any]]

    def column(self, name: str) -> int:
        """Position of a column by its folded name; Unreadable where it is absent or there twice."""
        wanted = fold(name)
        found = [i for i, column in enumerate(self.header) if fold(column) == wanted]
        if len(found) != 1:
            raise Unreadable(f"column {name!r} is {'missing' if not found else 'there twice'}")
        return found[0]


def fold(name: Any) -> str:
    return " ".join(str(name).split()).casefold()


def raw(path: Path) -> bytes:
    """The bytes of a plain file. A link is not followed."""
    if path.is_symlink() or not path.is_file():
        raise Unreadable("is not there" if not path.is_symlink() else "is a link")
    if path.stat().st_size > _LIMIT:
        raise Unreadable("is larger than 64 MB")
    return path.read_bytes()


def words(path: Path) -> str:
    """The text of a file: UTF-8, UTF-16 with its mark, else Windows-1252. NUL is no text."""
    data = raw(path)
    marked = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        content = data.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError:
        if marked:
            raise Unreadable("is not UTF-16, as its mark says") from None
        content = data.decode("cp1252", "replace")
    if "\0" in content:
        raise Unreadable("is no text")
    return content.replace("\r\n", "\n").replace("\r", "\n")


def document(path: Path) -> Any:
    try:
        return json.loads(words(path))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"is not JSON ({str(error)[:80]})") from None


def grid(path: Path, spec: Spec) -> Grid:
    """The table of a deliverable: csv, tsv, xlsx, or JSON as a list of objects."""
    kind = spec["type"]
    if kind in ("csv", "tsv"):
        return _delimited(words(path), "\t" if kind == "tsv" else ",", [c["name"] for c in spec.get("columns", ())])
    if kind == "xlsx":
        return _sheet(path, spec.get("sheet"))
    if kind == "json":
        return _objects(document(path))
    raise Unreadable(f"holds no table ({kind})")


def _delimited(content: str, delimiter: str, wanted: list[str]) -> Grid:
    best: list[list[str]] | None = None
    for mark in dict.fromkeys((delimiter, ",", ";", "\t")):
        try:
            lines = [row for row in csv.reader(io.StringIO(content), delimiter=mark) if any(c.strip() for c in row)]
        except csv.Error as error:
            raise Unreadable(f"is not csv ({error})") from None
        if not lines:
            raise Unreadable("is empty")
        if {fold(w) for w in wanted} <= {fold(h) for h in lines[0]} or best is None:
            best = lines
    assert best is not None
    return _grid(best)


def _sheet(path: Path, sheet: str | None) -> Grid:
    values = workbook(path, formulas=False)
    name = next((n for n in values if sheet is None or fold(n) == fold(sheet)), None)
    if name is None:
        raise Unreadable(f"has no sheet {sheet!r}")
    lines = [row for row in values[name] if any(cell is not None and cell != "" for cell in row)]
    if not lines:
        raise Unreadable("is empty")
    return _grid(lines)


def workbook(path: Path, *, formulas: bool) -> dict[str, list[list[Any]]]:
    """Every sheet of a workbook as rows of cells; formulas as text, or their stored values.

    Equal bytes are read once: many end states hold the same workbook. Nobody changes what comes out.
    """
    data = raw(path)
    key = (hashlib.sha256(data).digest(), formulas)
    if key not in _BOOKS:
        if len(_BOOKS) >= _MOST_BOOKS:
            _BOOKS.clear()
        _BOOKS[key] = _workbook(data, formulas)
    return _BOOKS[key]


#: workbooks of this call by the digest of their bytes; a call has a process of its own
_BOOKS: dict[tuple[bytes, bool], dict[str, list[list[Any]]]] = {}
_MOST_BOOKS = 48


def _workbook(data: bytes, formulas: bool) -> dict[str, list[list[Any]]]:
    import zipfile

    from openpyxl import load_workbook

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as inside:
            if sum(i.file_size for i in inside.infolist()) > 8 * _LIMIT:
                raise Unreadable("unpacks to more than 512 MB")
        book = load_workbook(io.BytesIO(data), data_only=not formulas)
        return {s.title: [list(row) for row in s.iter_rows(values_only=True)] for s in book.worksheets}
    except Unreadable:
        raise
    except Exception as error:  # openpyxl raises whatever a broken part makes it raise
        raise Unreadable(f"is not a workbook ({type(error).__name__})") from None


def _objects(value: Any) -> Grid:
    if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
        raise Unreadable("is no list of objects")
    header = list(dict.fromkeys(str(k) for item in value for k in item))
    return Grid(header, [[item.get(h) for h in header] for item in value])


def _grid(lines: Sequence[Sequence[Any]]) -> Grid:
    """The first line is the header; short lines are filled up, long ones refused."""
    header = list(lines[0])
    while header and header[-1] in (None, ""):
        header.pop()
    width, rows = len(header), []
    for number, line in enumerate(lines[1:], 2):
        if any(cell not in (None, "") for cell in line[width:]):
            raise Unreadable(f"has more cells in row {number} than in its header")
        rows.append([*line[:width], *[None] * (width - len(line))])
    return Grid(["" if h is None else str(h).strip() for h in header], rows)
