"""Choices that families share: which tables can be asked about, and conditions whose values really occur."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Literal

from rover.construct.columns import Column
from rover.construct.families.wording import Condition, Op, number, speakable
from rover.construct.profile import Profile, TableProfile
from rover_store.records.query import Scalar

MOST_ROWS = 12_000
MOST_BYTES = 2 << 20
#: a table of at most so many rows is a list of kinds: each of its names is a fair value to ask for
FEW_ROWS = 60
FEW_KINDS = 15


def usable(profile: Profile, least: int = 12, most: int = MOST_ROWS) -> list[TableProfile]:
    """Tables of a size that a worker can read through tools, with names that a request can quote."""
    return [
        t for t in profile.tables
        if least <= t.rows <= most
        and profile.file(t.path).size <= MOST_BYTES
        and profile.file(t.path).delimiter in ("", ",", "\t")
        and speakable(t.path) and (t.sheet is None or speakable(t.sheet))
        and len({c.name.casefold() for c in t.columns}) == len(t.columns)
    ]  # fmt: skip


def conditions(columns: Iterable[Column], rng: random.Random, count: int, prefix: str) -> tuple[Condition, ...]:
    """Up to `count` conditions on different columns, each met by a fair share of the rows."""
    pool = [c for c in columns if speakable(c.name)]
    rng.shuffle(pool)
    out: list[Condition] = []
    for column in pool:
        if len(out) == count:
            break
        made = _condition(column, rng, f"{prefix}_{len(out) + 1}")
        if made:
            out.append(made)
    return tuple(out)


def _condition(c: Column, rng: random.Random, given: str) -> Condition | None:
    if c.type == "text" and is_kind(c):
        return _of_text(c, rng, given)
    if c.numeric and c.meaning in ("amount", "year", "category") and len(c.quartiles) == 3 and c.distinct > 3:
        op: Op = rng.choice(("ge", "le"))
        edge = c.minimum if op == "ge" else c.maximum  # at its edge, every row would meet the condition
        value = plain_number(rng.choice([q for q in c.quartiles if q != edge] or [""]))
        if value is None:
            return None
        return _told(c, op, value, given, "number")
    if c.type == "date" and len(c.quartiles) == 3 and c.minimum != c.maximum:
        return _told(c, rng.choice(("ge", "lt")), c.quartiles[1], given, "date")
    return None


def is_kind(c: Column) -> bool:
    """Whether a column says of what kind a row is: a category, or the names in a short list of kinds."""
    if c.rows <= FEW_ROWS:
        return c.meaning in ("category", "code", "name", "flag") and 2 <= c.distinct <= FEW_KINDS
    return c.meaning in ("category", "code") and 2 <= c.distinct <= c.rows // 2


def _of_text(c: Column, rng: random.Random, given: str) -> Condition | None:
    few = c.rows <= FEW_ROWS
    fair = [v for v, n in c.common[:15] if speakable(v) and (few or n * 20 >= c.rows) and n * 10 <= c.rows * 9]
    if not fair:
        return None
    return _told(c, "eq" if rng.random() < 0.7 else "ne", rng.choice(fair), given, "text")


def _told(c: Column, op: Op, value: Scalar, given: str, kind: Literal["text", "number", "date"]) -> Condition:
    return Condition(c.name, op, value, given, kind)


def plain_number(text: str) -> int | float | None:
    """A number that the request can write without loss; None where it cannot."""
    if not text:
        return None
    value = float(text)
    if value.is_integer() and abs(value) < 1e15:
        return int(value)
    return value if float(number(value)) == value else None
