"""What counts as the same value: numbers, dates, text and booleans however they are written.

The written form of a number does not matter: 1,234.50, 1234.5, 1 234,50 EUR and (1,234.50) with its sign are
one value each. Dates are compared as dates, text without regard to case and runs of space. The kind of a
comparison is that of the expected value unless it is named.
"""

from __future__ import annotations

import math
import re
import unicodedata
from datetime import date as _date
from typing import Any, Literal

Cell = str | int | float | bool | None
Kind = Literal["text", "integer", "number", "date", "boolean"]
#: A score in [0, 1] and why, in words a person understands.
Result = tuple[float, str]

#: Slack of every comparison of numbers, relative to the expected one: floats are sums of rounded parts.
EPSILON = 1e-9

_SIGNS = "€$£¥₹"
CODES = "EUR|USD|GBP|CHF|JPY|CNY|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|INR|BRL|MXN|ZAR|SGD|HKD|KRW"
_UNIT = re.compile(rf"^(?:[{_SIGNS}]|(?:{CODES})\b)\s*|\s*(?:[{_SIGNS}%]|\b(?:{CODES})|(?<=\d)(?:{CODES}))$", re.I)
#: Digit groups: 1,234.5 | 1 234.5 or 1'234,5 | 1.234,5 | 1.234.567
_GROUPED = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?")
_SPACED = re.compile(r"[1-9]\d{0,2}(?:[ '’]\d{3})+(?:[.,]\d*)?")
_POINTED = re.compile(r"[1-9]\d{0,2}(?:(?:\.\d{3})+,\d+|(?:\.\d{3}){2,})")
_COMMA = re.compile(r"\d+,\d+")
_PLAIN = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")

_ISO = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)")
_DAY_FIRST = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")
_SLASHED = re.compile(r"(\d{1,2})[/-](\d{1,2})[/-](\d{4})")
_NAMED = re.compile(r"(?:(\d{1,2})\.?\s+([A-Za-z]{3,9})|([A-Za-z]{3,9})\.?\s+(\d{1,2})),?\s+(\d{4})")
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
)  # fmt: skip
_TRUE = frozenset({"true", "yes", "y", "1"})
_FALSE = frozenset({"false", "no", "n", "0"})


def is_empty(value: Any) -> bool:
    """No value: None or blank text."""
    return value is None or (isinstance(value, str) and not value.strip())


def number(value: Any) -> float | None:
    """The number that `value` states, or None. Currency and percent signs are units and are dropped."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            found = float(value)
        except OverflowError:
            return None
        return found if math.isfinite(found) else None
    if not isinstance(value, str) or len(value) > 80:
        return None
    body = unicodedata.normalize("NFKC", value).strip().replace("\u2212", "-")
    negative = False
    if body.startswith("(") and body.endswith(")"):
        negative, body = True, body[1:-1].strip()
    sign, body = _sign(body)
    body = _UNIT.sub("", _UNIT.sub("", body, count=1), count=1).strip()
    if sign == "":
        sign, body = _sign(body)
    found_or_none = _digits(body)
    if found_or_none is None or not math.isfinite(found_or_none):
        return None
    return -found_or_none if negative != (sign == "-") else found_or_none


def _sign(body: str) -> tuple[str, str]:
    return (body[0], body[1:].strip()) if body[:1] in ("+", "-") else ("", body)


def _digits(body: str) -> float | None:
    """An unsigned number without a unit."""
    if not body.isascii() and "’" not in body:
        return None
    if _PLAIN.fullmatch(body):
        return float(body)
    if _GROUPED.fullmatch(body):
        return float(body.replace(",", ""))
    if _SPACED.fullmatch(body):
        return float(re.sub(r"[ '’]", "", body).replace(",", "."))
    if _POINTED.fullmatch(body):
        return float(body.replace(".", "").replace(",", "."))
    if _COMMA.fullmatch(body):
        return float(body.replace(",", "."))
    return None


def date(value: Any) -> str | None:
    """The date that `value` states as YYYY-MM-DD, or None; 03/04/2024 could be two days and is none."""
    if isinstance(value, bool) or not isinstance(value, str | int) or len(body := " ".join(str(value).split())) > 40:
        return None
    found: list[str | None] = []
    if m := _ISO.fullmatch(body):
        found = [_day(m[1], m[3], m[4])]
    elif m := _COMPACT.fullmatch(body):
        found = [_day(m[1], m[2], m[3])]
    elif m := _DAY_FIRST.fullmatch(body):
        found = [_day(m[3], m[2], m[1])]
    elif m := _SLASHED.fullmatch(body):
        found = [_day(m[3], m[2], m[1]), _day(m[3], m[1], m[2])]
    elif m := _NAMED.fullmatch(body):
        name = (m[2] or m[3]).lower()
        month = next((i for i, full in enumerate(_MONTHS, 1) if full == name or full[:3] == name[:4]), 0)
        found = [_day(m[5], month, m[1] or m[4])]
    days = {d for d in found if d}
    return days.pop() if len(days) == 1 else None


def _day(year: str | int, month: str | int, day: str | int) -> str | None:
    try:
        return _date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return None


def plain(value: Any) -> str:
    """A value as one would write it in a cell: '' for none, 12 for 12.0."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def folded(value: Any) -> str:
    """Text as compared: one form of each character, no case, single spaces."""
    return " ".join(unicodedata.normalize("NFC", plain(value)).casefold().split())


def kind_of(expected: Any) -> Kind:
    """How a value is compared when nothing says otherwise."""
    if isinstance(expected, bool):
        return "boolean"
    if isinstance(expected, int | float):
        return "number"
    if isinstance(expected, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", expected) and date(expected):
        return "date"
    return "text"


def same_number(found: Any, expected: Any, tolerance: float = 0.0) -> bool:
    """Both state a number and they differ by no more than the tolerance (absolute)."""
    a, b = number(found), number(expected)
    return a is not None and b is not None and abs(a - b) <= tolerance + EPSILON * max(1.0, abs(b))


def same_date(found: Any, expected: Any) -> bool:
    a = date(found)
    return a is not None and a == date(expected)


def same_text(found: Any, expected: Any, *, case: bool = False) -> bool:
    """Equal text but for runs of space and, unless `case`, for upper and lower case."""
    if case:
        form = [" ".join(unicodedata.normalize("NFC", plain(v)).split()) for v in (found, expected)]
        return form[0] == form[1]
    return folded(found) == folded(expected)


def boolean(value: Any) -> bool | None:
    word = folded(value)
    return True if word in _TRUE else False if word in _FALSE else None


def same_boolean(found: Any, expected: Any) -> bool:
    a = boolean(found)
    return a is not None and a == boolean(expected)


def same(found: Any, expected: Any, kind: str | None = None, tolerance: float = 0.0) -> bool:
    """Whether `found` is the expected value. No value is the same as no value alone."""
    if is_empty(expected) or is_empty(found):
        return is_empty(expected) and is_empty(found)
    if isinstance(found, list | dict | tuple):
        return False
    kind = kind or kind_of(expected)
    if kind in ("number", "integer"):
        return same_number(found, expected, tolerance)
    if kind == "date":
        return same_date(found, expected)
    if kind == "boolean":
        return same_boolean(found, expected)
    if same_text(found, expected):
        return True
    # an identifier that a reader or a workbook took for a number: 7 for "007"
    return isinstance(found, int | float) and kind == "text" and number(found) == number(expected) is not None


def canonical(value: Any, kind: str) -> str:
    """A value as part of a key: equal keys have equal canonical forms. What does not parse stays text."""
    if kind in ("number", "integer"):
        n = number(value)
        return folded(value) if n is None else repr(round(n, 9) + 0.0)
    if kind == "date":
        return date(value) or folded(value)
    if kind == "boolean":
        b = boolean(value)
        return folded(value) if b is None else str(b)
    return folded(value)
