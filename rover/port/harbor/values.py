"""Values of TOML as JSON and back, exactly: dates, times and numbers that JSON has no form for are named as such."""

from __future__ import annotations

import datetime
import math
from typing import Any

#: the key under which a value stands that JSON has no form for
MARK = "$toml"
_KINDS = {
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "float": float,
}


def to_json(value: Any) -> Any:
    """A value of TOML in JSON."""
    if isinstance(value, dict):
        inner = {key: to_json(item) for key, item in value.items()}
        return {MARK: "table", "value": inner} if MARK in inner else inner
    if isinstance(value, list):
        return [to_json(item) for item in value]
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return {MARK: type(value).__name__, "value": value.isoformat()}
    if isinstance(value, float) and not math.isfinite(value):
        return {MARK: "float", "value": repr(value)}
    return value


def from_json(value: Any) -> Any:
    """The value again."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(MARK)
    if kind == "table":
        return {key: from_json(item) for key, item in value["value"].items()}
    if kind in _KINDS:
        return _KINDS[kind](value["value"])
    return {key: from_json(item) for key, item in value.items()}


def same(a: Any, b: Any) -> bool:
    """Whether two values of TOML are the same, types too: 600 is not 600.0. The order of keys does not matter."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return repr(a) == repr(b)
    return bool(a == b)
