"""GiGPO (arXiv 2505.10978): beside the trajectory's advantage, one among turns that began in the same state.

The reward comes with the last turn, so the return of a turn is Q_t = gamma^(T - 1 - t) R. Turns of a group whose
anchors are identical are compared with each other; an anchor that is met once says nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rover_train.credit.grpo import Grpo
from rover_train.credit.protocol import Group
from rover_train.credit.statistics import centred


class Gigpo(Grpo):
    """A = A_trajectory + omega A_step, each (value - mean) / F, F one or the deviation. omega 0: the first alone."""

    name = "gigpo"

    def compared(self, values: Sequence[float]) -> tuple[float, ...]:
        return super().compared(values) if self.settings.norm == "std" else centred(values)

    def turns(
        self, group: Group, earned: Sequence[float], trajectory: tuple[float, ...]
    ) -> tuple[tuple[float, ...], ...]:
        return tuple(
            tuple(a + self.settings.omega * step for step in of_rollout)
            for a, of_rollout in zip(trajectory, self._steps(group, earned), strict=True)
        )

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
            for (r, t), a in zip(places, self.compared(returns), strict=True):
                out[r][t] = a
        return out
