"""GiGPO (arXiv 2505.10978): beside the trajectory's advantage, one among turns that began in the same state.

The reward comes with the last turn, so the return of a turn is Q_t = gamma^(T - 1 - t) R. Turns of a group whose
anchors are identical are compared with each other; an anchor that is met once says nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import ClassVar

from rover_train.credit.protocol import Credit, Group
from rover_train.credit.rewards import rewards
from rover_train.credit.settings import Aggregation, CreditSettings
from rover_train.credit.statistics import centred, normalised


class Gigpo:
    """A = A_trajectory + omega A_step, each (value - mean) / F, F one or the deviation. omega 0: the first alone."""

    name = "gigpo"
    aggregation: ClassVar[Aggregation] = "turn"

    def __init__(self, settings: CreditSettings) -> None:
        self.settings = settings

    def assign(self, groups: Sequence[Group]) -> list[Credit]:
        return [self._of(group) for group in groups]

    def _of(self, group: Group) -> Credit:
        earned = rewards(group, self.settings.lam)
        trajectory = self._compared(earned)
        steps = self._steps(group, earned)
        turns = tuple(
            tuple(a + self.settings.omega * step for step in of_rollout)
            for a, of_rollout in zip(trajectory, steps, strict=True)
        )
        return Credit(earned, trajectory, turns)

    def _steps(self, group: Group, earned: Sequence[float]) -> list[list[float]]:
        met: dict[str, list[tuple[int, int]]] = defaultdict(list)
        out = [[0.0] * len(r.turns) for r in group.rollouts]
        for r, rollout in enumerate(group.rollouts):
            for t, turn in enumerate(rollout.turns):
                if turn.anchor:
                    met[turn.anchor].append((r, t))
        for places in met.values():
            left = [len(group.rollouts[r].turns) - 1 - t for r, t in places]
            returns = [self.settings.gamma**n * earned[r] for n, (r, _) in zip(left, places, strict=True)]
            for (r, t), a in zip(places, self._compared(returns), strict=True):
                out[r][t] = a
        return out

    def _compared(self, values: Sequence[float]) -> tuple[float, ...]:
        if self.settings.norm == "std":
            return normalised(values, self.settings.std, self.settings.eps)
        return centred(values)
