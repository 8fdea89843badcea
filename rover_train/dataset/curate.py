"""Which demonstrations are worth training on, by how often their package is solved and by their form.

    solved always         one for each normalised prefix: more of the same teaches nothing
    the middle band       several of one package
    very low completion   none: what passed there was luck, or the task is broken
    not counted           as the middle band

The normalised prefix is the instruction with the calls of the first turns and what they gave, without case, spacing
and ids of calls. It is compared over the whole dataset: tasks that look the same so far count once.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, ValidationError

from rover_store.errors import UsageError
from rover_store.ids import digest
from rover_store.records import Trajectory
from rover_train.dataset.demonstrations import Demo, Rate
from rover_train.section import Section

Band = Literal["always", "middle", "low", "uncounted"]
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
#: why a demonstration is left out
REASONS = {
    "turns": "more or fewer turns than the bounds allow",
    "calls": "more or fewer calls than the bounds allow",
    "characters": "more characters than the bound allows",
    "prefix": "a kept one begins the same, and the package is solved always",
    "several": "its package has enough of them",
    "low": "its package is hardly ever solved",
}


class CurationSettings(Section):
    """Which of the verified demonstrations are trained on."""

    always: float = Field(1.0, gt=0, le=1)
    """From this completion rate on, a package counts as solved always: one demonstration for each prefix."""
    low: float = Field(0.05, ge=0, lt=1)
    """Below this completion rate, a package gives none."""
    counted: int = Field(4, ge=1)
    """Rollouts that a rate needs before `low` applies."""
    several: int = Field(4, ge=1)
    """Demonstrations of one package in the middle band, at most."""
    prefix_turns: int = Field(3, ge=0)
    """Turns whose calls and outputs belong to the prefix, beside the instruction."""
    numbers_alike: bool = False
    """Take all numbers of a prefix as equal: tasks that differ in their values alone count once."""
    turns: tuple[int, int] = (1, 200)
    """Fewest and most turns."""
    calls: tuple[int, int] = (1, 400)
    """Fewest and most tool calls."""
    characters: int = Field(200_000, ge=1)
    """Most characters of messages, arguments and outputs together."""


def settings_of(sets: Sequence[str]) -> CurationSettings:
    """Settings from `several=2` or `turns=[1, 40]`, values as in TOML. UsageError names what is wrong."""
    values: dict[str, object] = {}
    for text in sets:
        try:
            values |= tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            raise UsageError(f"{text!r}: curation is set as KEY=VALUE, such as several=2") from None
    try:
        return CurationSettings.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        known = ", ".join(CurationSettings.model_fields)
        said = "no such key" if first["type"] == "extra_forbidden" else first["msg"].lower()
        raise UsageError(f"curation: {key}: {said}", hint=f"keys: {known}") from None


@dataclass(frozen=True, slots=True)
class Curated:
    """What is kept of one package, the band it is in, and why the rest is not."""

    kept: tuple[Demo, ...]
    band: Band
    dropped: dict[str, int]


class Curator:
    """Goes over packages in order; what it kept before decides on prefixes. Deterministic."""

    def __init__(self, settings: CurationSettings | None = None) -> None:
        self.settings = settings or CurationSettings()
        self._prefixes: set[str] = set()

    def __call__(self, instruction: str, demos: Sequence[Demo], rate: Rate) -> Curated:
        """Choose among the demonstrations of one package."""
        band = self.band(rate)
        dropped = Counter[str]()
        kept: list[Demo] = []
        sound = []
        for demo in demos:
            wrong = self.out_of_bounds(demo.trajectory)
            dropped[wrong] += bool(wrong)
            if not wrong:
                sound.append((self.prefix(instruction, demo.trajectory), demo))
        for prefix, demo in self._new_first(sound):
            if band == "low":
                dropped["low"] += 1
            elif band == "always" and prefix in self._prefixes:
                dropped["prefix"] += 1
            elif band != "always" and len(kept) >= self.settings.several:
                dropped["several"] += 1
            else:
                self._prefixes.add(prefix)
                kept.append(demo)
        return Curated(tuple(kept), band, {reason: dropped[reason] for reason in REASONS if dropped[reason]})

    def band(self, rate: Rate) -> Band:
        """Where a completion rate lies."""
        value = rate.value
        if value is None:
            return "uncounted"
        if value >= self.settings.always:
            return "always"
        return "low" if value < self.settings.low and rate.attempts >= self.settings.counted else "middle"

    def out_of_bounds(self, trajectory: Trajectory) -> str:
        """The bound that a trajectory breaks; empty for none."""
        settings = self.settings
        if not settings.turns[0] <= len(trajectory.turns) <= settings.turns[1]:
            return "turns"
        if not settings.calls[0] <= sum(len(t.calls) for t in trajectory.turns) <= settings.calls[1]:
            return "calls"
        return "characters" if characters(trajectory) > settings.characters else ""

    def prefix(self, instruction: str, trajectory: Trajectory) -> str:
        """Identity of the normalised prefix."""
        turns = trajectory.turns[: self.settings.prefix_turns]
        calls = [[c.tool, c.arguments, c.output] for t in turns for c in t.calls]
        return digest(self._normal([instruction, calls]))

    def _normal(self, value: object) -> object:
        if isinstance(value, str):
            text = " ".join(value.lower().split())
            return _NUMBER.sub("0", text) if self.settings.numbers_alike else text
        if isinstance(value, dict):
            return {str(k): self._normal(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self._normal(v) for v in value]
        if isinstance(value, int | float) and not isinstance(value, bool) and self.settings.numbers_alike:
            return 0
        return value

    def _new_first(self, sound: Sequence[tuple[str, Demo]]) -> list[tuple[str, Demo]]:
        """Those that begin in a new way before those that repeat one, else in their order."""
        seen = set(self._prefixes)
        first: list[tuple[str, Demo]] = []
        again: list[tuple[str, Demo]] = []
        for prefix, demo in sound:
            (again if prefix in seen else first).append((prefix, demo))
            seen.add(prefix)
        return first + again


def characters(trajectory: Trajectory) -> int:
    """Characters of messages, arguments and outputs together."""
    total = len(trajectory.final_message)
    for turn in trajectory.turns:
        total += len(turn.message)
        total += sum(len(c.output) + len(json.dumps(c.arguments, ensure_ascii=False)) for c in turn.calls)
    return total
