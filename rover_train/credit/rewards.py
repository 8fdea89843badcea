"""The reward of a rollout: R = G [(1 - lambda) S_B + lambda S_A], S_B its outcome score, S_A its trace score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rover_train.credit.protocol import Group, RolloutEvidence, TurnEvidence


def trace_score(turns: Sequence[TurnEvidence]) -> float:
    """S_A = 1 - min(1, sum of c_t / turns). A rollout without a turn has made no error."""
    if not turns:
        return 1.0
    return 1.0 - min(1.0, math.fsum(t.cost for t in turns) / len(turns))


def trace(rollout: RolloutEvidence) -> float:
    return trace_score(rollout.turns) if rollout.trace is None else rollout.trace


def reward(rollout: RolloutEvidence, lam: float) -> float:
    return rollout.gate * ((1 - lam) * rollout.outcome + lam * trace(rollout))


def rewards(group: Group, lam: float) -> tuple[float, ...]:
    return tuple(reward(r, lam) for r in group.rollouts)


def component(rollout: RolloutEvidence, name: str) -> float:
    """A named reward component, gated like the whole: `outcome`, `trace`, or one of the rollout's own.

    KeyError with the name where the rollout has none such.
    """
    own: Mapping[str, float] = {"outcome": rollout.outcome, "trace": trace(rollout), **rollout.components}
    return rollout.gate * own[name]


def everywhere(group: Group, trajectory: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    """The advantage of a trajectory at each of its turns."""
    return tuple((a,) * len(r.turns) for a, r in zip(trajectory, group.rollouts, strict=True))
