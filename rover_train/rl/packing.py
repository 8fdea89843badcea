"""Rows cut into minibatches and passes: whole rollouts together, rows of like length side by side.

Padded tokens cost as much as real ones, so the rows of a minibatch are sorted by length before they share a pass.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from rover_train.rows import WeightedRow

#: the rows of one rollout
Rollout = Sequence[WeightedRow]


def minibatches(rollouts: Sequence[Rollout], count: int, seed: int) -> list[list[Rollout]]:
    """Rollouts dealt into at most `count` minibatches of like size, in an order drawn from the seed."""
    order = list(range(len(rollouts)))
    random.Random(seed).shuffle(order)
    count = max(1, min(count, len(order)))
    return [[rollouts[n] for n in sorted(order[at::count])] for at in range(count)]


def passes(rows: Sequence[WeightedRow], tokens: int) -> list[list[WeightedRow]]:
    """Rows in groups of at most `tokens` tokens, padding included (a longer row goes alone); longest first."""
    out: list[list[WeightedRow]] = []
    for row in sorted(rows, key=lambda r: -len(r.row.ids)):  # a stable sort: equal lengths keep their order
        if out and len(out[-1][0].row.ids) * (len(out[-1]) + 1) <= tokens:
            out[-1].append(row)
        else:
            out.append([row])
    return out


def silent(rollout: Rollout) -> bool:
    """Whether no token of a rollout has an advantage: its gradient is exactly zero."""
    return not any(any(row.advantage) for row in rollout)
