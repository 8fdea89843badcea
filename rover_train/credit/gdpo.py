"""GDPO (arXiv 2601.05242): each reward component is normalised in its group before they are added.

So a component with small spread is not drowned by one with large. The weighted sum is whitened over the batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from rover_store.errors import UsageError
from rover_train.credit.protocol import Credit, Group
from rover_train.credit.rewards import component, everywhere, rewards
from rover_train.credit.settings import Aggregation, CreditSettings
from rover_train.credit.statistics import normalised


class Gdpo:
    """A^k = (r^k - mean) / (std + eps) in the group, S = sum of w_k A^k, A = (S - mean) / (std + eps) in the batch.

    Components are gated. Without weights of their own they are the two of the reward: outcome with weight
    1 - lambda and trace with lambda.
    """

    name = "gdpo"
    aggregation: ClassVar[Aggregation] = "turn"

    def __init__(self, settings: CreditSettings) -> None:
        self.settings = settings
        default = {"outcome": 1 - settings.lam, "trace": settings.lam}
        self.weights: Mapping[str, float] = settings.components or default

    def assign(self, groups: Sequence[Group]) -> list[Credit]:
        sums = [self._sums(group) for group in groups]
        white = iter(normalised([s for of_group in sums for s in of_group], self.settings.std, self.settings.eps))
        out = []
        for group, of_group in zip(groups, sums, strict=True):
            found = [next(white) for _ in of_group]
            # the sums of every group have mean 0, and so has the batch: what a tied one is given is rounding
            trajectory = tuple(found) if any(of_group) else (0.0,) * len(found)
            out.append(Credit(rewards(group, self.settings.lam), trajectory, everywhere(group, trajectory)))
        return out

    def _sums(self, group: Group) -> list[float]:
        """S of each rollout of a group."""
        parts: list[list[float]] = [[] for _ in group.rollouts]
        for name, weight in sorted(self.weights.items()):
            try:
                values = [component(r, name) for r in group.rollouts]
            except KeyError:
                raise UsageError(f"gdpo: the rollouts have no reward component {name!r}") from None
            for place, a in enumerate(normalised(values, self.settings.std, self.settings.eps)):
                parts[place].append(weight * a)
        return [math.fsum(p) for p in parts]
