"""Which rows make the batch of a step: a function of seed and step alone, so that nothing needs to be stored.

Rows of like length share a batch, since padded tokens cost as much as real ones. No torch.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from rover_store.names import digest

#: batches that are sorted by length together; more pad less, fewer mix better
_SORTED_TOGETHER = 16


class Batches:
    """Batches of row numbers. Every epoch goes through all rows once, in an order of its own."""

    def __init__(self, lengths: Sequence[int], size: int, seed: int) -> None:
        self._lengths = lengths
        self._size = size
        self._seed = seed
        self._epoch = -1
        self._batches: list[list[int]] = []
        self.per_epoch = -(-len(lengths) // size)

    def at(self, step: int) -> list[int]:
        """The rows of update `step`, from 0."""
        epoch, index = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            self._batches = self._of(epoch)
            self._epoch = epoch
        return self._batches[index]

    def _of(self, epoch: int) -> list[list[int]]:
        draw = random.Random(digest(["batches", self._seed, epoch]))
        order = list(range(len(self._lengths)))
        draw.shuffle(order)
        out: list[list[int]] = []
        for start in range(0, len(order), self._size * _SORTED_TOGETHER):
            near = sorted(order[start : start + self._size * _SORTED_TOGETHER], key=lambda n: self._lengths[n])
            out += [near[i : i + self._size] for i in range(0, len(near), self._size)]
        draw.shuffle(out)
        return out
