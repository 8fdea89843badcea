"""When a cell has the value that a call names, and how a value is written into a text file."""

from __future__ import annotations

import datetime
from typing import Any


def plain(value: Any) -> Any:
    """A cell as JSON: dates in ISO form (without a time where it is midnight), others as they are."""
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == datetime.time() else value.isoformat(sep=" ")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


def written(value: Any) -> str:
    """A value as the text of a cell: nothing for null, true and false, shortest form of a number."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"{value:.1f}"
    return str(value)


def matches(cell: Any, wanted: Any) -> bool:
    """Whether a cell has the wanted value: as text, as a number where both are numbers, empty for null."""
    cell = plain(cell)
    if wanted is None or wanted == "":
        return cell is None or cell == ""
    if cell is None:
        return False
    if isinstance(cell, bool) or isinstance(wanted, bool):
        return written(cell).lower() == written(wanted).lower()
    if str(cell) == str(wanted):
        return True
    left, right = _number(cell), _number(wanted)
    return left is not None and left == right


def _number(value: Any) -> float | None:
    # "007" and 7 are different keys: a text with a leading zero is not a number here
    if isinstance(value, int | float):
        return float(value)
    text = str(value)
    if text != text.strip() or "_" in text or (len(text) > 1 and text[0] == "0" and text[1].isdigit()):
        return None
    try:
        return float(text)
    except ValueError:
        return None
