"""Progress of turns: increments of the supported criteria, and how a turn shares its own with its prerequisites."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rover_train.credit.protocol import Group, RolloutEvidence, TurnEvidence

Numbers = tuple[float, ...]


def increments(group: Group) -> tuple[Numbers, ...]:
    """p_t of every turn: sum of w_k (after - before) over the criteria that are supported on both sides."""
    return tuple(tuple(_increment(t, group.weights) for t in r.turns) for r in group.rollouts)


def _increment(turn: TurnEvidence, weights: Sequence[float]) -> float:
    if not len(turn.before) == len(turn.after) == len(weights):
        raise ValueError("a turn's statuses and the group's weights differ in number")
    sides = zip(weights, turn.before, turn.after, strict=True)
    return math.fsum(w * (after - before) for w, before, after in sides if before is not None and after is not None)


def shared(rollout: RolloutEvidence, increment: Numbers, keep: float, *, transitive: bool = False) -> Numbers:
    """Credit of each turn, delta: a positive increment is kept in part and the rest shared equally among the turn's
    prerequisites; a negative one stays where it arose. The sum is that of the increments."""
    parts: list[list[float]] = [[] for _ in increment]
    reach = prerequisites(rollout, transitive=transitive)
    for turn, p in enumerate(increment):
        if p <= 0 or not reach[turn]:
            parts[turn].append(p)
            continue
        parts[turn].append(keep * p)
        for earlier in reach[turn]:
            parts[earlier].append((1 - keep) * p / len(reach[turn]))
    return tuple(math.fsum(of_turn) for of_turn in parts)


def even(increment: Numbers) -> Numbers:
    """The control: what the turns made together, the same for each of them."""
    if not increment:
        return ()
    return (math.fsum(increment) / len(increment),) * len(increment)


def prerequisites(rollout: RolloutEvidence, *, transitive: bool = False) -> list[tuple[int, ...]]:
    """For each turn the earlier turns that it used: directly, or through any chain of use."""
    found: list[tuple[int, ...]] = []
    for number, turn in enumerate(rollout.turns):
        used = set(turn.uses)
        if any(not 0 <= u < number for u in used):
            raise ValueError(f"turn {number} cannot have used {sorted(used)}: only turns before it")
        if transitive:
            used |= {further for u in turn.uses for further in found[u]}
        found.append(tuple(sorted(used)))
    return found
