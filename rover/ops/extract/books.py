"""Workbooks by sheet and cell, with formulas beside the values that were saved with them. Runs inside.

A cell is text: a number its shortest form, a date YYYY-MM-DD, a truth value TRUE or FALSE. Text that would read as one
of these begins with an apostrophe, as it does when typed, so that 1 and the text 1 differ.
"""

from __future__ import annotations

import datetime
import re
import warnings
from typing import Any

from rover.ops.extract.packed import Parts, Unreadable

WARM = ("openpyxl", "rover.ops.extract.packed")

ROWS, WIDTH, CELLS = 100_000, 1_000, 400_000
#: bytes of all the XML of a workbook, and of its elements: what openpyxl can read in the time given
XML, ELEMENTS = 96 << 20, 3_000_000
_TYPED = re.compile(r"[-+]?[\d.,]+([eE][-+]?\d+)?%?|TRUE|FALSE|\d{4}-\d\d-\d\d.*|['=#].*", re.DOTALL)


def read(payload: dict[str, Any]) -> dict[str, Any]:
    """{"sheets": [{"name", "rows", "formulas", "cut", "state"}], "parts": {member: digest}}."""
    import openpyxl

    name = payload["file"]
    parts = Parts(name)
    digests = parts.parts()
    _check(parts)
    try:
        with warnings.catch_warnings(action="ignore"), open(name, "rb") as one, open(name, "rb") as two:
            values = openpyxl.load_workbook(one, read_only=True, data_only=True)
            formulas = openpyxl.load_workbook(two, read_only=True, data_only=False)
            left = CELLS
            sheets = []
            for sheet in formulas.worksheets:
                found = _sheet(sheet, values[sheet.title], left)
                left -= sum(map(len, found["rows"]))
                sheets.append(found)
    except Unreadable:
        raise
    except Exception as error:  # openpyxl raises anything on a damaged workbook
        raise Unreadable(f"damaged or locked ({type(error).__name__})") from None
    return {"sheets": sheets, "parts": digests}


def _check(parts: Parts) -> None:
    total = elements = 0
    for name in parts.names:
        if name.endswith((".xml", ".rels")):
            text = parts.read(name)
            total += len(text)
            elements += text.count(b"<")
            if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
                raise Unreadable("its XML declares entities")
    if total > XML or elements > ELEMENTS:
        raise Unreadable("too large to read by cell")


def _sheet(formulas: Any, values: Any, left: int) -> dict[str, Any]:
    """Both readings of a sheet side by side. Sizes that a sheet claims are not believed."""
    for side in (formulas, values):
        side.reset_dimensions()
    rows: list[list[str]] = []
    found: list[tuple[int, int, str]] = []
    cut = False
    pairs = zip(formulas.iter_rows(values_only=True), values.iter_rows(values_only=True), strict=False)
    for r, (formula, value) in enumerate(pairs):
        width = max((i + 1 for i, v in enumerate(formula[:WIDTH]) if v is not None), default=0)
        left -= width
        if r >= ROWS or left < 0:
            cut = True
            break
        cut |= len(formula) > WIDTH and any(v is not None for v in formula[WIDTH:])
        row = []
        for c in range(width):
            written = formula[c]
            given = value[c] if c < len(value) else None
            if isinstance(written, str) and written.startswith("=") and written != given:
                found.append((r, c, written))
                row.append(text(given))
            elif hasattr(written, "text") or hasattr(written, "ref"):  # an array formula, a data table
                found.append((r, c, f"{{{getattr(written, 'text', None) or getattr(written, 'ref', '')}}}"))
                row.append(text(given))
            else:
                row.append(text(written))
        rows.append(row)
    while rows and not any(rows[-1]):
        rows.pop()
    return {"name": formulas.title, "rows": rows, "formulas": found, "cut": cut, "state": formulas.sheet_state}


def text(value: object) -> str:
    """A cell as text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
        return repr(int(value) if whole else value)
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == datetime.time() else value.isoformat(" ")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    said = str(value)
    if said.startswith("#") and said.endswith(("!", "?", "A")):  # an error, as #DIV/0!
        return said
    return f"'{said}" if _TYPED.fullmatch(said) else said
