"""Other values for one that a request tells: near enough to be meant, and not the same."""

from __future__ import annotations

import random
import re
from datetime import date, timedelta

from rover.diagnose.demands import columns_of
from rover.diagnose.inject.grids import empty, read, uses
from rover.diagnose.restate import words
from rover.rollout.env import Env
from rover_store.records import GivenValue, Scalar

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_CODES = ("REVIEWED", "OPEN", "N", "PENDING", "A2")


def other_value(env: Env, given: GivenValue, rng: random.Random) -> Scalar:
    """Another value of the same sort; a text is one that the same column holds, where it holds others."""
    value = given.value
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + (rng.choice((-10, -5, -1, 1, 5, 10)) if _is_year(value) else _step(value, rng))
    if isinstance(value, float):
        decimals = len(words(value).partition(".")[2])
        return round(value * rng.choice((0.5, 1.5, 2.0, 10.0)), decimals + 1)
    if _DAY.fullmatch(value):
        return _shifted(value, rng.choice((-365, -31, -30, 30, 31, 365)))
    others = _others(env, given)
    return rng.choice(others or [c for c in _CODES if c.lower() != value.lower()])


def in_other_unit(env: Env, given: GivenValue, rng: random.Random) -> str | None:
    """A quantity in another unit, a date in another format; None for text and for zero."""
    value = given.value
    if isinstance(value, str):
        if not _DAY.fullmatch(value):
            return None
        year, month, day = value.split("-")
        return rng.choice((f"{day}/{month}/{year}", f"{month}/{day}/{year[2:]}", f"{int(day)}.{int(month)}.{year[2:]}"))
    if isinstance(value, bool) or not value:
        return None
    if _is_year(value):
        return f"'{int(value) % 100:02}"
    column = (*columns_of(env.contract, given.name), given.name)[0].lower()
    for end, ways in _UNITS.items():
        if column.endswith(end):
            factor, unit = rng.choice(ways)
            return f"{_plain(value * factor)} {unit}"
    if abs(value) >= 100:
        return rng.choice((f"{_plain(value / 1000)} thousand", f"{_plain(value / 100)} hundred"))
    return rng.choice((f"{_plain(value * 100)} hundredths", f"{_plain(value * 1000)} thousandths"))


_UNITS = {
    "_mm": ((0.1, "cm"), (0.03937, "inches")), "_cm": ((10.0, "mm"), (0.3937, "inches")), "_m": ((3.28084, "ft"),),
    "_km": ((0.621371, "miles"), (1000.0, "m")), "_ft": ((0.3048, "m"),), "_g": ((0.001, "kg"), (0.035274, "oz")),
    "_kg": ((1000.0, "g"), (2.204623, "lb")),
}  # fmt: skip


def _plain(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".")


def _is_year(value: float) -> bool:
    return float(value).is_integer() and 1800 <= value <= 2100


def _step(value: int, rng: random.Random) -> int:
    size = max(1, abs(value) // 10)
    return rng.choice((size, 2 * size, -size if value > size else 3 * size))


def _shifted(value: str, days: int) -> str:
    try:
        return (date.fromisoformat(value) + timedelta(days=days)).isoformat()
    except (ValueError, OverflowError):
        return "2023-01-31"


def _others(env: Env, given: GivenValue) -> list[str]:
    columns = set(columns_of(env.contract, given.name))
    found: set[str] = set()
    for use in uses(env):
        grid = read(env, use.source)
        for at, name in enumerate(grid.header if grid else ()):
            if grid is not None and name in columns:
                cells = {str(c).strip() for c in grid.column(at) if not empty(c)}
                found |= cells if len(cells) <= 5000 else set()
    return sorted(v for v in found if v.lower() != str(given.value).lower() and v and not set(v) & set('`"\n'))
