"""Wording a contract again, as near as can be to a request that is already there.

A family's `request` makes its choices of words through the random numbers that it is given. An `Author` takes their
place: of several phrasings it chooses the one that the present request has, or comes nearest to. So a request
that says what its contract says comes out as it is, and of a damaged one only the damage changes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any

from rover.construct.families.wording import Condition, Op
from rover_store.records import Contract
from rover_store.records.query import Filter

_STYLES = {"bullets": re.compile(r"(?m)^- "), "numbers": re.compile(r"(?m)^1\. ")}
#: so alike is a sentence that was changed in a word or two
ALIKE = 0.8


class Misfit(ValueError):
    """The contract is none that this family writes."""


class Author(random.Random):
    """Chooses words by a request that is there; draws nothing at random."""

    def __new__(cls, text: str) -> Author:
        return super().__new__(cls)

    def __init__(self, text: str) -> None:
        super().__init__(0)
        self.text = text

    @cached_property
    def sentences(self) -> list[str]:
        lines = [re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "", line) for line in self.text.splitlines()]
        return [s for line in lines for s in re.split(r"(?<=\.)\s+", line.strip()) if s]

    def choice(self, seq: Any) -> Any:
        options = list(seq)
        if not all(isinstance(o, str) for o in options):
            return options[0]
        if "prose" in options:
            return next((style for style, mark in _STYLES.items() if mark.search(self.text)), "prose")
        there = [o for o in options if self._stands(o)]
        if there:
            return max(there, key=len)
        return max(options, key=lambda o: self._near(o)[0])

    def shuffle(self, x: Any) -> None:
        """Into the order in which the request has them."""
        names = all(isinstance(item, str) and item.startswith("`") and item.endswith("`") for item in x)
        if names:
            best = max(self.sentences, key=lambda s: sum(item in s for item in x), default="")
            x.sort(key=lambda item: best.find(item) if item in best else len(best))
        else:
            x.sort(key=lambda item: self._near(str(item))[1])

    def says(self, options: Sequence[str]) -> bool:
        """Whether the request has one of these sentences, or one very like it."""
        return any(self._near(o)[0] >= ALIKE for o in options)

    def says_of(self, name: str, options: Sequence[str]) -> bool:
        """Whether a sentence that names `name` in backticks has one of these phrases before it."""
        return any(f"{o} `{name}`" in self.text for o in options)

    def _stands(self, option: str) -> bool:
        """Whether the text has it as a whole: `a` is 1 does not stand in `a` is 12."""
        found = re.escape(option)
        return re.search(rf"(?<!\w){found}(?!\w|\.\d)" if option[-1:].isalnum() else found, self.text) is not None

    def _near(self, option: str) -> tuple[float, int]:
        """Likeness to the likeliest sentence, and where that stands."""
        best, at = 0.0, len(self.sentences)
        for number, sentence in enumerate(self.sentences):
            matcher = SequenceMatcher(None, option, sentence, autojunk=False)
            if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and matcher.ratio() > best:
                best, at = matcher.ratio(), number
        return best, at


def condition(contract: Contract, found: Filter) -> Condition:
    """The condition that a filter of a query stands for."""
    op: Op = found.op
    if found.value is None:
        return Condition(found.column, op)
    value = next((g.value for g in contract.givens if found.value and g.name == found.value.given), None)
    if value is None or isinstance(value, bool):
        raise Misfit(f"no value {found.value.given}")
    if isinstance(value, int | float):
        return Condition(found.column, op, value, found.value.given, "number")
    dated = op in ("lt", "le", "gt", "ge")
    return Condition(found.column, op, value, found.value.given, "date" if dated else "text")


def conditions(contract: Contract, found: Sequence[Filter]) -> tuple[Condition, ...]:
    return tuple(condition(contract, f) for f in found)
