"""Workbooks (xlsx) through openpyxl: read, write a sheet, set cells; the same content gives the same bytes.

openpyxl keeps what it knows of a workbook (other sheets, formats, widths, formulas); pictures are lost.
"""

from __future__ import annotations

import datetime
import io
import re
import zipfile
from typing import TYPE_CHECKING, Any

from rover.harness.tools.paths import ToolError
from rover.harness.tools.values import matches, plain

if TYPE_CHECKING:
    from openpyxl import Workbook
    from openpyxl.worksheet.worksheet import Worksheet

_STAMP = re.compile(rb"(<dcterms:(created|modified)[^>]*>)[^<]*(</dcterms:)")
_EPOCH = (1980, 1, 1, 0, 0, 0)
CELL_CHARACTERS = 32_767


def load(path: str, data: bytes, *, values: bool = False, stream: bool = False) -> Workbook:
    """The workbook: with what formulas gave (`values`), or rows alone in half the time (`stream`).

    ToolError where it cannot be read (damaged, with a password, not a workbook).
    """
    from openpyxl import load_workbook

    try:
        return load_workbook(io.BytesIO(data), data_only=values, read_only=stream)
    except Exception as error:  # openpyxl raises whatever its parsers do
        kind = "it has a password" if data[:8] == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" else str(error).split("\n")[0]
        raise ToolError(f"{path}: cannot be read as a workbook: {kind[:150]}") from None


def save(book: Workbook) -> bytes:
    """The workbook's bytes, free of times."""
    raw = io.BytesIO()
    book.save(raw)
    out = io.BytesIO()
    with zipfile.ZipFile(raw) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "docProps/core.xml":
                data = _STAMP.sub(rb"\g<1>2000-01-01T00:00:00Z\g<3>", data)
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o600 << 16
            new.writestr(info, data)
    return out.getvalue()


def sheet_of(path: str, book: Workbook, sheet: str | None) -> Worksheet:
    """The named sheet, or the first one."""
    sheets = book.worksheets
    for found in sheets:
        if sheet is None or found.title == sheet:
            return found
    raise ToolError(f"{path}: no sheet {sheet!r}; it has {', '.join(s.title for s in sheets) or 'none'}")


def overview(path: str, data: bytes) -> list[dict[str, Any]]:
    """Name, size and header of every sheet."""
    out = []
    for sheet in load(path, data, values=True).worksheets:
        first, header, _ = _layout(sheet)
        rows = max(sheet.max_row, 0) if first else 0
        out.append({"name": sheet.title, "rows": rows, "columns": sheet.max_column if first else 0, "header": header})
    return out


def table(path: str, data: bytes, sheet: str | None) -> tuple[list[str], list[list[Any]]]:
    """Header and rows of a sheet: values (what formulas last gave), without rows that are empty."""
    book = load(path, data, values=True, stream=True)
    found = sheet_of(path, book, sheet)
    if hasattr(found, "reset_dimensions"):
        found.reset_dimensions()  # what a workbook says of its size may be wrong
    filled = (cells for cells in found.iter_rows(values_only=True) if any(cell is not None for cell in cells))
    first = next(filled, ())
    place = [at for at, cell in enumerate(first) if cell is not None]
    header = [str(plain(first[at])) for at in place]
    rows = [[plain(cells[at]) if at < len(cells) else None for at in place] for cells in filled]
    book.close()
    return header, rows


def edit(
    path: str, data: bytes, sheet: str | None, where: dict[str, Any], changes: dict[str, Any]
) -> tuple[bytes, int]:
    """The workbook with the matching rows of a sheet changed, and how many matched."""
    book = load(path, data)
    found = sheet_of(path, book, sheet)
    first, header, place = _layout(found)
    for name in (*where, *changes):
        if name not in header:
            raise ToolError(f"{path}: no column {name!r}; it has {', '.join(header) or 'none'}")
        if header.count(name) > 1:
            raise ToolError(f"{path}: {header.count(name)} columns are called {name!r}")
    column = {name: place[number] for number, name in enumerate(header)}
    values = sheet_of(path, load(path, data, values=True), sheet) if _has_formulas(found) else found
    changed = 0
    both = zip(found.iter_rows(min_row=first + 1), values.iter_rows(min_row=first + 1), strict=True)
    for number, (row, shown) in enumerate(both, first + 1):
        if not any(cell.value is not None for cell in row):
            continue
        if all(matches(shown[column[name]].value, value) for name, value in where.items()):
            changed += 1
            for name, value in changes.items():
                _set(path, found, number, column[name] + 1, value)
    return (save(book) if changed else data), changed


def set_cells(path: str, data: bytes, sheet: str, cells: dict[str, Any]) -> tuple[bytes, int]:
    """The workbook with single cells set by address."""
    from openpyxl.utils.cell import coordinate_to_tuple

    book = load(path, data)
    found = sheet_of(path, book, sheet)
    for address, value in cells.items():
        row, column = coordinate_to_tuple(address.upper())
        if row > 1_048_576 or column > 16_384:
            raise ToolError(f"{path}: {address} is outside of a sheet")
        _set(path, found, row, column, value, formula=True)
    return save(book), len(cells)


def write(path: str, old: bytes | None, sheet: str | None, columns: list[str], rows: list[list[Any]]) -> bytes:
    """A sheet with these rows: in a new workbook, or in place of the sheet of that name in an old one."""
    from openpyxl import Workbook

    if old is None:
        book = Workbook()
        target = book.worksheets[0]
        target.title = sheet or "Sheet1"
    else:
        book = load(path, old)
        names = [s.title for s in book.worksheets]
        name = sheet or (names[0] if names else "Sheet1")
        at = names.index(name) if name in names else len(names)
        if name in names:
            book.remove(book[name])
        target = book.create_sheet(name, at)
    for number, row in enumerate((columns, *rows), 1):
        for place, value in enumerate(row, 1):
            if value is not None:
                _set(path, target, number, place, value)
    return save(book)


def _set(path: str, sheet: Worksheet, row: int, column: int, value: Any, *, formula: bool = False) -> None:
    """Set one cell. A text that begins with `=` is a formula only where `formula` says so."""
    from openpyxl.utils.exceptions import IllegalCharacterError

    where = f"{path}: row {row}, column {column}"
    if isinstance(value, str) and len(value) > CELL_CHARACTERS:
        raise ToolError(f"{where}: {len(value)} characters; a cell holds at most {CELL_CHARACTERS}")
    cell = sheet.cell(row=row, column=column)
    try:
        cell.value = _kept(cell, value)
    except IllegalCharacterError:
        raise ToolError(f"{where}: a workbook cannot hold the text {value!r}") from None
    except (ValueError, AttributeError) as error:  # a cell inside a merged range
        raise ToolError(f"{where}: {error}") from None
    if not formula and isinstance(value, str) and value.startswith("="):
        cell.data_type = "s"


def _kept(cell: Any, value: Any) -> Any:
    """The value, as a date where the cell held one and the text is one: a column keeps its type."""
    if isinstance(value, str) and isinstance(getattr(cell, "value", None), datetime.datetime):
        try:
            return datetime.datetime.fromisoformat(value)
        except ValueError:
            return value
    return value


def _layout(sheet: Worksheet) -> tuple[int, list[str], list[int]]:
    """Row of the header (0: the sheet is empty), names, and each name's place in a row (0-based)."""
    for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
        named = [(str(plain(cell)), at) for at, cell in enumerate(cells) if cell is not None]
        if named:
            return number, [name for name, _ in named], [at for _, at in named]
    return 0, [], []


def _has_formulas(sheet: Worksheet) -> bool:
    return any(cell.data_type == "f" for row in sheet.iter_rows() for cell in row)
