"""Dr.GRPO (arXiv 2503.20783): no division by the deviation, and token sums over one constant length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rover_train.credit.grpo import Grpo
from rover_train.credit.settings import Aggregation
from rover_train.credit.statistics import centred


class DrGrpo(Grpo):
    """A = R - mean at every turn. Its tokens are weighted 1 / (B L_max) unless told otherwise."""

    name = "dr-grpo"
    aggregation: ClassVar[Aggregation] = "constant"

    def compared(self, values: Sequence[float]) -> tuple[float, ...]:
        return centred(values)
