"""All random state of a process: set from a seed, captured for a checkpoint, put back on resume."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def seed_all(seed: int, threads: int = 1) -> None:
    """Seed python, numpy and torch, and make torch compute the same bits every time."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True, warn_only=torch.cuda.is_available())


def capture() -> dict[str, Any]:
    """The state as numbers and tensors, which a checkpoint can hold without pickled code."""
    version, words, gauss = random.getstate()
    name, keys, pos, has, cached = np.random.get_state(legacy=True)
    return {
        "python": [version, list(words), gauss],
        "numpy": [str(name), [int(k) for k in keys], int(pos), int(has), float(cached)],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore(state: dict[str, Any]) -> None:
    """Put a captured state back."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, pos, has, cached = state["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), pos, has, cached))
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])


@contextmanager
def aside() -> Iterator[None]:
    """What happens inside draws nothing from the run's state: evaluation in the midst of training."""
    state = capture()
    try:
        yield
    finally:
        restore(state)
