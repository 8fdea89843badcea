"""Means and deviations of a group. Sums are exactly rounded, so the order of the rollouts does not matter."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rover_train.credit.settings import Std

#: values that differ by less are tied: what is left between them is rounding
TIE = 1e-12


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def deviation(values: Sequence[float], std: Std) -> float:
    """Standard deviation with n - 1 (sample) or n (population); 0 for a single value."""
    below = len(values) - 1 if std == "sample" else len(values)
    if below < 1:
        return 0.0
    middle = mean(values)
    return math.sqrt(math.fsum((v - middle) ** 2 for v in values) / below)


def tied(values: Sequence[float]) -> bool:
    """Whether all are equal. One value is tied, and so are none."""
    return not values or max(values) - min(values) <= TIE


def centred(values: Sequence[float]) -> tuple[float, ...]:
    """Each less the mean; exactly 0 where all are tied."""
    if tied(values):
        return (0.0,) * len(values)
    middle = mean(values)
    return tuple(v - middle for v in values)


def normalised(values: Sequence[float], std: Std, eps: float) -> tuple[float, ...]:
    """(v - mean) / (std + eps); exactly 0 where all are tied, as they are in a group of one."""
    if tied(values):
        return (0.0,) * len(values)
    middle, below = mean(values), deviation(values, std) + eps
    return tuple((v - middle) / below for v in values)
