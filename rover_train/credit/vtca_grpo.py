"""VTCA-GRPO, verifier-to-turn credit assignment: A_t = A_trajectory + alpha H delta_t - eta c_t.

Progress comes from frozen deterministic criteria on the trees around a turn, is shared with the turns that it rests
on, and is withheld where integrity, protected state or safety was broken. With alpha = eta = 0 it is GRPO, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rover_train.credit.grpo import Grpo
from rover_train.credit.progress import Numbers, increments, shared
from rover_train.credit.protocol import Credit, Group, RolloutEvidence
from rover_train.credit.settings import Aggregation, CreditSettings
from rover_train.credit.statistics import mean


class VtcaGrpo:
    """Credit by place: the turn that made progress keeps most, its prerequisites get the rest."""

    name = "vtca-grpo"
    aggregation: ClassVar[Aggregation] = "turn"

    def __init__(self, settings: CreditSettings) -> None:
        self.settings = settings
        self._episodes = Grpo(settings)

    def assign(self, groups: Sequence[Group]) -> list[Credit]:
        whole = self._episodes.assign(groups)
        return [self._of(group, credit) for group, credit in zip(groups, whole, strict=True)]

    def spread(self, rollout: RolloutEvidence, increment: Numbers) -> Numbers:
        """delta: where the increments of a rollout go."""
        return shared(rollout, increment, self.settings.keep, transitive=self.settings.transitive)

    def _of(self, group: Group, whole: Credit) -> Credit:
        made = increments(group)
        delta = tuple(self.spread(r, p) for r, p in zip(group.rollouts, made, strict=True))
        middle = _mean_cost(group) if self.settings.centred else 0.0
        turns = tuple(
            self._turns(a, rollout, ds, middle)
            for a, rollout, ds in zip(whole.trajectory, group.rollouts, delta, strict=True)
        )
        return Credit(whole.rewards, whole.trajectory, turns, made, delta)

    def _turns(self, trajectory: float, rollout: RolloutEvidence, delta: Numbers, middle: float) -> Numbers:
        alpha, eta = self.settings.alpha, self.settings.eta
        return tuple(
            trajectory + alpha * rollout.intact * d - eta * (turn.cost - middle)
            for d, turn in zip(delta, rollout.turns, strict=True)
        )


def _mean_cost(group: Group) -> float:
    """Mean over rollouts of the mean over their turns: the weights of aggregation by turn."""
    means = [mean([t.cost for t in r.turns]) for r in group.rollouts if r.turns]
    return mean(means) if means else 0.0
