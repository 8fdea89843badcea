"""GRPO (arXiv 2402.03300): one advantage a trajectory, its reward normalised in the group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rover_train.credit.protocol import Credit, Group
from rover_train.credit.rewards import everywhere, rewards
from rover_train.credit.settings import Aggregation, CreditSettings
from rover_train.credit.statistics import normalised


class Grpo:
    """A = (R - mean) / (std + eps) at every turn; 0 in a group of one and where all are tied.

    Schemes that compare otherwise, or give turns something beside, replace `compared` or `turns`.
    """

    name = "grpo"
    aggregation: ClassVar[Aggregation] = "turn"

    def __init__(self, settings: CreditSettings) -> None:
        self.settings = settings

    def assign(self, groups: Sequence[Group]) -> list[Credit]:
        return [self._of(group) for group in groups]

    def compared(self, values: Sequence[float]) -> tuple[float, ...]:
        """The advantage of each value among the others."""
        return normalised(values, self.settings.std, self.settings.eps)

    def turns(
        self, group: Group, earned: Sequence[float], trajectory: tuple[float, ...]
    ) -> tuple[tuple[float, ...], ...]:
        """The advantage of each turn of each rollout."""
        return everywhere(group, trajectory)

    def _of(self, group: Group) -> Credit:
        earned = rewards(group, self.settings.lam)
        trajectory = self.compared(earned)
        return Credit(earned, trajectory, self.turns(group, earned, trajectory))
