"""Randomness that is keyed, not drawn in turn: a lane's sample never depends on who else is in the batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_WORD = (1 << 64) - 1


def uniforms(seed: int, turn: int, count: int) -> NDArray[np.float64]:
    """`count` numbers in [0, 1), one for each token of a turn; a longer call begins with the same numbers.

    Philox is counter-based: its key is (seed, turn), its counter the token index. A seed is taken modulo 2**64.
    """
    key = np.array([seed & _WORD, turn & _WORD], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).random(count)
