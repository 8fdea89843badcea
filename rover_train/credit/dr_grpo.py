"""Dr.GRPO (arXiv 2503.20783): no division by the deviation, and token sums over one constant length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rover_train.credit.protocol import Credit, Group
from rover_train.credit.rewards import everywhere, rewards
from rover_train.credit.settings import Aggregation, CreditSettings
from rover_train.credit.statistics import centred


class DrGrpo:
    """A = R - mean at every turn. Its tokens are weighted 1 / (B L_max) unless told otherwise."""

    name = "dr-grpo"
    aggregation: ClassVar[Aggregation] = "constant"

    def __init__(self, settings: CreditSettings) -> None:
        self.settings = settings

    def assign(self, groups: Sequence[Group]) -> list[Credit]:
        return [self._of(group) for group in groups]

    def _of(self, group: Group) -> Credit:
        earned = rewards(group, self.settings.lam)
        trajectory = centred(earned)
        return Credit(earned, trajectory, everywhere(group, trajectory))
