"""When two written values are one: the oracle's own reading of numbers, dates, booleans and text.

Runs inside the sandbox, on values out of hostile files. Plain Python, no records, nothing of rover.verify: the
oracle and the verifier must be able to disagree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

Spec = Mapping[str, Any]  # a column: name, type, tolerance
Same = Mapping[str, Any]  # the contract's sameness

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?")
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:[,  ']\d{3})+(?:\.\d+)?")
_COMMA = re.compile(r"[-+]?(?:\d{1,3}(?:[. ]\d{3})+|\d+),\d+")
_DATE_FORMS = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y",
    "%d %B %Y", "%d %b %Y", "%B %d, %Y", "%B %d %Y", "%b %d, %Y", "%b %d %Y",
)  # fmt: skip
_TRUE, _FALSE = {"true", "yes", "1", "y", "t"}, {"false", "no", "0", "n", "f"}
_CURRENCY = "$€£¥%"
_EPS = 1e-9


def empty(value: Any) -> bool:
    """No value: None, NaN or blank text."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def number(value: Any) -> float | None:
    """The number that `value` writes, or None. `1,234.50`, `1234.5` and `1234.500` are one."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) < 1e308 and value == value else None
    text = str(value).strip().replace("−", "-")
    if text.startswith("(") and text.endswith(")"):
        text = "-" + text[1:-1]
    text = text.strip(_CURRENCY + " ")
    if _GROUPED.fullmatch(text):
        text = re.sub(r"[,  ']", "", text)
    elif _COMMA.fullmatch(text):
        text = re.sub(r"[. ]", "", text).replace(",", ".")
    return float(text) if _NUMBER.fullmatch(text) and len(text) < 400 else None


def day(value: Any) -> date | None:
    """The one date that `value` writes. 03/04/2024 could be two days and is none."""
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    written = " ".join(str(value).split())
    if not 8 <= len(written) <= 40:
        return None
    try:
        return datetime.fromisoformat(written.replace("Z", "+00:00")).date()
    except ValueError:
        pass
    found = set()
    for form in _DATE_FORMS:
        try:
            found.add(datetime.strptime(written, form).date())
        except ValueError:
            continue
    return found.pop() if len(found) == 1 else None


def truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    word = str(value).strip().casefold()
    if word.endswith(".0"):
        word = word[:-2]
    return True if word in _TRUE else False if word in _FALSE else None


def text(value: Any, same: Same) -> str:
    """Text with its blanks folded, and its case unless that matters. Whole floats lose their `.0`."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, datetime) and not (value.hour or value.minute or value.second):
        value = value.date()
    folded = " ".join(str(value).split())
    return folded if same.get("text_case") else folded.casefold()


def equal(got: Any, want: Any, spec: Spec, same: Same) -> bool:
    """Whether `got`, out of a deliverable, is the answer `want` for a column of this type and tolerance."""
    if empty(got) or empty(want):
        return empty(got) and empty(want)
    kind = spec.get("type", "text")
    if kind in ("number", "integer"):
        if same.get("number_format") and isinstance(got, str):
            return got.strip() == str(want)
        a, b = number(got), number(want)
        return a is not None and b is not None and abs(a - b) <= _slack(spec, b)
    if kind == "date":
        a_day = day(got)
        return a_day is not None and a_day == day(want)
    if kind == "boolean":
        a_truth, b_truth = truth(got), truth(want)
        return a_truth is not None and a_truth == b_truth
    if text(got, same) == text(want, same):
        return True
    a, b = number(got), number(want)  # an id that a reader took for a number: 7 and "7.0"
    return isinstance(got, int | float) and a is not None and a == b


def key_of(value: Any, spec: Spec, same: Same) -> Any:
    """A hashable form under which equal key values are equal. Keys have no tolerance."""
    if empty(value):
        return ""
    kind = spec.get("type", "text")
    if kind in ("number", "integer"):
        got = number(value)
        return round(got, 9) if got is not None else text(value, same)
    if kind == "date":
        known_day = day(value)
        return known_day.isoformat() if known_day else text(value, same)
    if kind == "boolean":
        known = truth(value)
        return known if known is not None else text(value, same)
    return text(value, same)


def kind_of(value: Any) -> str:
    """The column type that fits a plain value."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    iso = isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value)
    return "date" if iso else "text"


def sort_key(value: Any, spec: Spec, same: Same) -> Any:
    """A comparable form of a cell, or None where the cell does not write the column's type."""
    kind = spec.get("type", "text")
    if kind in ("number", "integer"):
        return number(value)
    if kind == "date":
        return day(value)
    return text(value, same)


def _slack(spec: Spec, want: float) -> float:
    return float(spec.get("tolerance") or 0.0) + _EPS * max(1.0, abs(want))
