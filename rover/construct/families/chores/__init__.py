"""Chores on small tables: reports row by row, values that are looked up, single cells of a ledger.

Made for training: instructions and tables are short, tasks come at six levels, and a pass needs everything right.
`chores` covers levels 1 to 4; `strict_chores` levels 4 to 6, where every report is critical: G = 0 unless it is right.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from rover.construct.config import BuildConfig
from rover.construct.families.built_in import BuiltIn
from rover.construct.families.protocol import Draft, Dropped

if TYPE_CHECKING:
    from rover.construct.profile import Profile


class Chores(BuiltIn):
    """Both families have the same solvers and requests; levels and criticality differ."""

    def __init__(self, name: str, version: str, levels: tuple[int, ...], *, strict: bool) -> None:
        super().__init__(name, version, module="chores")
        self._levels = levels
        self._strict = strict

    def propose(self, profile: Profile, rng: random.Random, config: BuildConfig) -> Draft | Dropped:
        from rover.construct.families.chores.propose import propose

        return propose(profile, rng, levels=self._levels, strict=self._strict)


FAMILY = Chores("chores", "1", (1, 2, 3, 4), strict=False)
STRICT = Chores("strict_chores", "1", (4, 5, 6), strict=True)
