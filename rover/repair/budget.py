"""What a repair may cost: rollouts, seconds, tokens. A bound that is hit ends the case undecided, with what it has."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


class BudgetSpent(Exception):
    """A bound was hit. What was replayed until then is kept as evidence; the same command goes on from there."""


@dataclass(frozen=True, slots=True)
class RepairBudget:
    """Bounds of one repair; None is no bound. Zero means that nothing may run."""

    rollouts: int | None = None  # rollouts run; reused ones cost nothing
    seconds: float | None = None
    tokens: int | None = None  # of models, by rollouts that were run

    @property
    def nothing(self) -> str:
        """Why nothing may run at all; empty where something may."""
        for name in ("rollouts", "seconds"):
            bound = getattr(self, name)
            if bound is not None and bound <= 0:
                return f"the budget is {bound:g} {name}: nothing was run"
        return ""


@dataclass
class Meter:
    """Counts one repair against its budget."""

    budget: RepairBudget
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)
    rollouts: int = 0
    tokens: int = 0

    def __post_init__(self) -> None:
        self.started = self.clock()

    def spent(self) -> str:
        """Which bound is hit; empty where none is."""
        budget = self.budget
        if budget.rollouts is not None and self.rollouts >= budget.rollouts:
            return f"{budget.rollouts} rollouts were run"
        if budget.tokens is not None and self.tokens > budget.tokens:
            return f"{self.tokens} tokens were used, {budget.tokens} are allowed"
        if budget.seconds is not None and self.clock() - self.started >= budget.seconds:
            return f"{budget.seconds:g} seconds are over"
        return ""

    def check(self) -> None:
        """BudgetSpent where a bound is hit."""
        reason = self.spent()
        if reason:
            raise BudgetSpent(reason)
