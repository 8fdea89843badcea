"""Rows cut into minibatches and passes: whole rollouts together, rows of like length side by side.

Padded tokens cost as much as real ones, so the rows of a minibatch are sorted by length before they share a pass.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from rover_train.rows import WeightedRow


class Piece(NamedTuple):
    """A row with what its advantage cannot carry: weight of each token in terms that stand beside the surrogate, and
    log-probabilities under the reference model; both empty where no term needs them."""

    weighted: WeightedRow
    weights: Sequence[float] = ()
    reference: Sequence[float] = ()

    @property
    def length(self) -> int:
        return len(self.weighted.row.ids)


#: the rows of one rollout
Rollout = Sequence[Piece]


def minibatches(rollouts: Sequence[Rollout], count: int, seed: int) -> list[list[Rollout]]:
    """Rollouts dealt into at most `count` minibatches of like size, in an order drawn from the seed."""
    order = list(range(len(rollouts)))
    random.Random(seed).shuffle(order)
    count = max(1, min(count, len(order)))
    return [[rollouts[n] for n in sorted(order[at::count])] for at in range(count)]


def passes(pieces: Sequence[Piece], tokens: int) -> list[list[Piece]]:
    """Rows in groups of at most `tokens` tokens, padding included (a longer row goes alone); longest first."""
    out: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda p: -p.length):  # a stable sort: equal lengths keep their order
        if out and out[-1][0].length * (len(out[-1]) + 1) <= tokens:
            out[-1].append(piece)
        else:
            out.append([piece])
    return out


def silent(rollout: Rollout) -> bool:
    """Whether no token of a rollout has an advantage: its gradient is exactly zero."""
    return not any(any(piece.weighted.advantage) for piece in rollout)
