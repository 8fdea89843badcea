"""Putting a value that the contract gives back into the request: where its hole is, in the words of the request.

A rule of repair, and what lets a probe ask how far a solver would come if the request were whole. It reads the
request and the contract alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rover.diagnose.demands import compared_with, states_given
from rover_store.records import Contract, GivenValue, Scalar

_PHRASES: dict[str, tuple[str, ...]] = {
    "eq": ("is equal to", "equals", "is"),
    "ne": ("is not equal to", "differs from", "is not"),
    "lt": ("is earlier than", "is less than", "is before", "is below"),
    "le": ("is on or before", "is no later than", "is no more than", "is at most"),
    "gt": ("is later than", "is more than", "is greater than", "is after", "is above"),
    "ge": ("is on or after", "is no earlier than", "is no less than", "is at least"),
    "contains": ("contains",),
}
#: where a clause ends: a stop, a new line, or the next condition
_END = r"(?=\s+(?:and|or)\s+`|[,;:]\s|\.(?:\s|$)|\n|$|[,;:]$)"


def missing(instruction: str, contract: Contract) -> tuple[GivenValue, ...]:
    """The given values that the request should state and does not."""
    return tuple(
        g for g in contract.givens if g.stated_in == "instruction" and not states_given(instruction, contract, g)
    )


def restated(instruction: str, contract: Contract, givens: Iterable[GivenValue]) -> str:
    """The request with each value put into its hole; where no hole is found, said in a sentence at the end."""
    text = instruction
    for given in givens:
        filled = _filled(text, contract, given)
        text = filled if filled is not None else f"{text.rstrip()}\n\n{_sentence(given)}\n"
    return text


def words(value: Scalar) -> str:
    """A value as a request writes it: numbers and dates bare, text in quotes."""
    if isinstance(value, str):
        return value if re.fullmatch(r"\d{4}-\d{2}-\d{2}", value) else f'"{value}"'
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int) else f"{value:.9f}".rstrip("0")


def _filled(text: str, contract: Contract, given: GivenValue) -> str | None:
    for column, op in compared_with(contract, given.name):
        for phrase in _PHRASES.get(op, ()):
            name = rf"`?{re.escape(column)}`?"
            found = re.search(rf"(?<!\w){name}\s+{phrase}(?P<hole>\s+[^\n]*?|\s*){_END}", text)
            if found is None:
                continue
            return f"{text[: found.start('hole')]} {words(given.value)}{text[found.end('hole') :]}"
    return None


def _sentence(given: GivenValue) -> str:
    return f"The value {given.meaning or given.name} is {words(given.value)}."
