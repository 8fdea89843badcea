"""The build config: how large and how cluttered a task is to be. It goes into the provenance of a package."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass

from rover_store.records.query import Scalar


@dataclass(frozen=True, slots=True)
class BuildConfig:
    """Knobs of one attempt."""

    #: input files that the task should need (a join takes two)
    inputs: int = 2
    #: files of the start that the task edits in place, where the family edits
    edited_files: int = 1
    #: steps of reasoning the request should chain: filters, joins, derived columns, sorting
    complexity: int = 2
    #: distractor files for each file that the task needs
    distractor_ratio: float = 1.0
    #: budget of turns that H grants
    turns: int = 30
    #: choose distractors and inputs along the relations between files (off: at random)
    expansion: bool = True
    #: how often failed calibration may feed back to the draft before V is frozen
    rewrites: int = 2

    def provenance(self) -> dict[str, Scalar]:
        return dict(asdict(self))

    @classmethod
    def draw(cls, rng: random.Random) -> BuildConfig:
        """A config for one attempt, spread over what the families support."""
        return cls(
            inputs=rng.choice((1, 2, 2, 3)),
            complexity=rng.choice((1, 2, 2, 3)),
            distractor_ratio=rng.choice((0.5, 1.0, 1.5)),
            turns=rng.choice((20, 30, 40)),
        )
