"""What is compared, on what, and how large: arms, task sets and scales. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rover_store.errors import UsageError


@dataclass(frozen=True, slots=True)
class ArmSpec:
    """A method with the settings that make it this arm; all other settings are those of the task set."""

    method: str
    sets: tuple[str, ...] = ()


ARMS: dict[str, ArmSpec] = {
    "grpo": ArmSpec("grpo"),
    "vtca-grpo": ArmSpec("vtca-grpo"),
    "vtca-even": ArmSpec("vtca-even"),
    "dr-grpo": ArmSpec("dr-grpo"),
    "gdpo": ArmSpec("gdpo"),
    "gigpo": ArmSpec("gigpo"),
    "gigpo-0": ArmSpec("gigpo", ("credit.omega=0",)),
    "vtca-transitive": ArmSpec("vtca-grpo", ("credit.transitive=true",)),
}
#: the comparison that is asked for where nothing else is: the claim, its baseline and its control
THREE = ("grpo", "vtca-grpo", "vtca-even")

#: family of the packages of each set
FAMILIES: dict[str, str] = {"dense": "chores", "sparse": "strict_chores"}


@dataclass(frozen=True, slots=True)
class Scale:
    """How large a comparison is. `count` packages are tried for in each workspace and family.

    `shares` of packages: train, validation, held-out, by workspace. `sft` and `rl` are settings that differ from the
    recipe's; `pretraining` are steps on drills.
    """

    workspaces: int
    count: int
    shares: tuple[float, float, float]
    demonstrations: int
    seeds: int
    pretraining: int
    sft: tuple[str, ...] = ()
    rl: tuple[str, ...] = ()
    #: rollouts of each held-out package at T = 1
    attempts: int = 2


FULL = Scale(
    workspaces=125, count=4, shares=(0.3, 0.08, 0.62), demonstrations=4, seeds=5, pretraining=900,
    rl=("eval.every=10",),
)  # fmt: skip
QUICK = Scale(
    workspaces=20, count=3, shares=(0.5, 0.2, 0.3), demonstrations=4, seeds=2, pretraining=600,
    rl=("rl.steps=8", "eval.every=4"), attempts=1,
)  # fmt: skip
#: least held-out packages that a full comparison reports on
LEAST_HELD_OUT = 300


@dataclass(frozen=True, slots=True)
class Plan:
    """One comparison: which sets, which arms, which seeds."""

    sets: tuple[str, ...]
    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    scale: Scale
    seed: int = 0

    def runs(self) -> list[tuple[str, str, int]]:
        """(set, arm, seed), seed by seed, so that a comparison cut short compares what it has."""
        return [(s, a, n) for n in self.seeds for s in self.sets for a in self.arms]


def chosen(names: Sequence[str], known: Sequence[str], what: str) -> tuple[str, ...]:
    """Names given one by one or with commas, in the order of `known`. UsageError for one that is not known."""
    asked = [part.strip() for name in names for part in name.split(",") if part.strip()]
    for name in asked:
        if name not in known:
            raise UsageError(f"no {what} is called {name!r}", hint=f"known: {', '.join(known)}")
    return tuple(n for n in known if n in asked)
