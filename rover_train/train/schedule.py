"""Learning rate as a pure function of the step. No torch."""

from __future__ import annotations

import math

from rover_train.train.settings import OptimSettings


def factor(settings: OptimSettings, step: int, total: int) -> float:
    """Share of the peak rate at update `step` (from 0) of `total`.

    Warm-up climbs linearly and reaches the peak at its last step; linear and cosine reach `floor` at the last step.
    """
    warmup = settings.warmup if settings.warmup >= 1 else settings.warmup * total
    if step < math.floor(warmup):
        return (step + 1) / math.floor(warmup)
    if settings.schedule == "constant":
        return 1.0
    left = total - 1 - math.floor(warmup)
    done = min(1.0, (step - math.floor(warmup)) / left) if left > 0 else 1.0
    curve = 1 - done if settings.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2
    return settings.floor + (1 - settings.floor) * curve
