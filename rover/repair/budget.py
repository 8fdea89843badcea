"""What a repair may cost: rollouts, seconds, tokens. A bound that is hit ends the case undecided, with what it has."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from rover_store.records import Trajectory


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
    """Counts one repair against its budget. The engine tells it of all work."""

    budget: RepairBudget
    clock: Callable[[], float] = time.monotonic
    rollouts: int = 0
    tokens: int = 0
    spent: str = ""  # the bound that was hit, in words
    started: float = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.started = self.clock()

    def rollout(self) -> None:
        """One more rollout is about to run."""
        with self._lock:
            self.check()
            bound = self.budget.rollouts
            if bound is not None and self.rollouts >= bound:
                self._stop(f"the budget of {bound} rollouts is spent")
            self.rollouts += 1

    def played(self, trajectory: Trajectory) -> None:
        with self._lock:
            self.tokens += trajectory.usage.prompt_tokens + trajectory.usage.completion_tokens

    def work(self) -> None:
        """Something else is about to run: a grading, a derivation."""
        self.check()

    def check(self) -> None:
        """BudgetSpent where tokens or time are over."""
        budget = self.budget
        if budget.tokens is not None and self.tokens > max(0, budget.tokens):
            self._stop(f"the budget of {budget.tokens} tokens is spent ({self.tokens} were used)")
        if budget.seconds is not None and self.clock() - self.started >= budget.seconds:
            self._stop(f"the budget of {budget.seconds:g} seconds is spent")

    def _stop(self, why: str) -> NoReturn:
        self.spent = why
        raise BudgetSpent(why)
