"""What credit is computed from, and what it gives.

A scheme sees graded rollouts in groups (one task, one initial workspace) and gives every turn an advantage. The
trainer does not know which scheme ran: it multiplies with token weights and sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class TurnEvidence:
    """One turn. `before` and `after`: status in [0, 1] of each criterion, in the group's order; None where it is not
    supported (no deterministic check, or the check failed). `uses`: indices of earlier turns that this one directly
    used. `cost`: trace cost c_t. `tokens`: tokens that the policy wrote. `anchor`: identity of what the policy saw and
    of the workspace before the turn (GiGPO's anchor state)."""

    before: tuple[float | None, ...] = ()
    after: tuple[float | None, ...] = ()
    uses: tuple[int, ...] = ()
    cost: float = 0.0
    tokens: int = 0
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class RolloutEvidence:
    """One graded rollout. `gate` is G, `intact` is H (0 where an integrity, protected-state or safety check failed),
    `outcome` is S_B. `trace` is S_A, None: computed from the turns' costs. `components`: named rewards for GDPO."""

    outcome: float
    gate: int
    intact: int
    turns: tuple[TurnEvidence, ...]
    trace: float | None = None
    components: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """Rollouts of one task from one initial workspace. `weights`: w_k of the criteria; they sum to 1."""

    weights: tuple[float, ...]
    rollouts: tuple[RolloutEvidence, ...]


@dataclass(frozen=True, slots=True)
class Credit:
    """What a scheme gives one group; outer index rollout, inner index turn. `increments` p_t and `delta` (credit after
    sharing with prerequisites) are empty tuples for schemes that have none."""

    rewards: tuple[float, ...]
    trajectory: tuple[float, ...]
    turns: tuple[tuple[float, ...], ...]
    increments: tuple[tuple[float, ...], ...] = ()
    delta: tuple[tuple[float, ...], ...] = ()


@runtime_checkable
class CreditScheme(Protocol):
    """A way to assign credit. Stateless and deterministic."""

    name: str

    def assign(self, groups: Sequence[Group]) -> list[Credit]:
        """Credit of each group of one batch, in order (a scheme may normalise over the batch)."""
