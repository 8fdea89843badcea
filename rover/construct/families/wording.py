"""Controlled English for what families have in common: conditions, names, sources, guards.

Names of columns, sheets and files stand in backticks, text values in double quotes, numbers and dates bare.
`Condition` is the builder's side; no solver imports this module.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rover_store.records import GivenValue, Source
from rover_store.records.query import Filter, Given, Scalar

Op = Literal["eq", "ne", "lt", "le", "gt", "ge", "contains", "is_null", "not_null"]

_TEXT: dict[str, tuple[str, ...]] = {
    "eq": ("is {v}", "equals {v}"),
    "ne": ("is not {v}", "differs from {v}"),
    "contains": ("contains {v}",),
    "is_null": ("is empty",),
    "not_null": ("is not empty",),
}
_NUMBER: dict[str, tuple[str, ...]] = {
    "eq": ("is {v}", "equals {v}"),
    "ne": ("is not {v}", "differs from {v}"),
    "lt": ("is below {v}", "is less than {v}"),
    "le": ("is at most {v}", "is no more than {v}"),
    "gt": ("is above {v}", "is more than {v}"),
    "ge": ("is at least {v}", "is no less than {v}"),
    "is_null": ("is empty",),
    "not_null": ("is not empty",),
}
_DATE: dict[str, tuple[str, ...]] = {
    **_TEXT,
    "lt": ("is before {v}", "is earlier than {v}"),
    "le": ("is on or before {v}", "is no later than {v}"),
    "gt": ("is after {v}", "is later than {v}"),
    "ge": ("is on or after {v}", "is no earlier than {v}"),
}


@dataclass(frozen=True, slots=True)
class Condition:
    """`column op value`, the value a given of that name."""

    column: str
    op: Op
    value: Scalar | None = None
    given: str = ""
    kind: Literal["text", "number", "date"] = "text"

    def filter(self) -> Filter:
        return Filter(column=self.column, op=self.op, value=Given(given=self.given) if self.given else None)

    def given_value(self, stated_in: str = "instruction") -> tuple[GivenValue, ...]:
        if self.value is None:
            return ()
        meaning = f"compared with {self.column}"
        return (GivenValue(name=self.given, value=self.value, meaning=meaning, stated_in=stated_in),)

    def words(self, rng: random.Random) -> str:
        phrases = {"text": _TEXT, "number": _NUMBER, "date": _DATE}[self.kind][self.op]
        said = value(self.value, self.kind)
        return rng.choice(tuple(f"{name(self.column)} {phrase.format(v=said)}" for phrase in phrases))


def name(text: str) -> str:
    """A name as the request writes it."""
    return f"`{text}`"


def value(item: Scalar | None, kind: str) -> str:
    """A value as the request writes it."""
    if kind == "number" and isinstance(item, int | float):
        return number(item)
    return str(item) if kind == "date" else f'"{item}"'


def number(item: float) -> str:
    """A number without exponent or needless zeros."""
    if float(item).is_integer():
        return str(int(item))
    return f"{item:.9f}".rstrip("0")


def place(source: Source) -> str:
    """A table as the request names it."""
    return f"the sheet {name(source.sheet)} of {name(source.path)}" if source.sheet else name(source.path)


def listing(items: Iterable[str], joiner: str = "and") -> str:
    """a / a and b / a, b and c."""
    parts = list(items)
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {joiner} {parts[-1]}"


def speakable(text: str) -> bool:
    """Whether a name or value can be quoted in the request without ambiguity."""
    return bool(text) and text == text.strip() and len(text) <= 60 and not set(text) & set('`"\n\r\t\\')


def paragraphs(rng: random.Random, intro: str, steps: Sequence[str], outro: Sequence[str]) -> str:
    """The request: an opening line, the steps as bullets, numbers or prose, closing sentences."""
    style = rng.choice(("bullets", "numbers", "prose"))
    if style == "prose":
        body = " ".join(s if "\n" not in s else f"{s}\n" for s in steps)
    elif style == "numbers":
        body = "\n".join(f"{i}. {s}" for i, s in enumerate(steps, 1))
    else:
        body = "\n".join(f"- {s}" for s in steps)
    return f"{intro}\n\n{body.strip()}\n\n{' '.join(outro)}\n"


OPENINGS = (
    "The quarterly review needs a prepared file.",
    "Please get this ready for the team meeting.",
    "A colleague asked for the following piece of work.",
    "This is for the planning round.",
    "We want to look at the data from one side only.",
)
EMPTY_CELLS = (
    "An empty cell meets no condition, nor does NA in a column of numbers or dates.",
    "A row whose cell is empty (or NA, in a column of numbers or dates) does not meet a condition on it.",
)
GAPS = (
    "Cells that are empty or say NA are left out of sums, averages, smallest and largest values.",
    "Sums, averages and extremes skip cells that are empty or say NA.",
)
ROUNDING = ("Halves are rounded away from zero.", "Round halves away from zero.")
GUARD = (
    "Leave every other file as it is and create no other file.",
    "Do not change, add or delete any other file.",
    "No other file may be changed, created or deleted.",
)
