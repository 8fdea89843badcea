"""Another value of the same kind: what a mutation writes where an answer stood."""

from __future__ import annotations

from datetime import date as day
from datetime import datetime, timedelta
from typing import Any

from rover.verify.checklib.values import date, is_empty, number

_FLIPPED = {"true": "false", "false": "true", "yes": "no", "no": "yes", "True": "False", "False": "True"}


def other(value: Any, delta: float | None = None) -> Any:
    """A value that no tolerance takes for `value`, written in its way: its type, its decimals."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, datetime | day):
        return value + timedelta(days=1)
    if is_empty(value):
        return "x"
    if isinstance(value, str) and (d := date(value)) is not None and number(value) is None:
        return (day.fromisoformat(d) + timedelta(days=1)).isoformat()
    if isinstance(value, str) and value.strip() in _FLIPPED:
        return _FLIPPED[value.strip()]
    n = number(value)
    if n is None:
        return f"{value} (other)"
    moved = n + (delta if delta is not None else max(1.0, round(abs(n) * 0.1)))
    if isinstance(value, int):
        return round(moved)
    if isinstance(value, float):
        return round(moved, 6)
    return f"{moved:.{decimals(value)}f}"


def decimals(text: str) -> int:
    """Digits after the point of a written number."""
    return len(text.rstrip("% €$£)").rpartition(".")[2]) if "." in text else 0


def reformatted(value: Any) -> Any:
    """The same number in another form: 1234.5 as 1,234.50, a workbook's or JSON's number as its like."""
    n = number(value)
    if n is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return float(value)
    if isinstance(value, float):
        return int(n) if n.is_integer() else value
    places = decimals(value)
    if places == 0:
        return f"{int(n):,}" if abs(n) >= 1000 and "," not in value else f"{int(n)}.0"
    return f"{n:,.{places}f}" if abs(n) >= 1000 and "," not in value else f"{n:.{places + 1}f}"
