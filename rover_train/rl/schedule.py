"""Which packages a step plays, and the seed of every rollout: functions of the run's seed and the step alone."""

from __future__ import annotations

import random
from collections.abc import Sequence

from rover_store.ids import digest


def tasks_of(names: Sequence[str], step: int, tasks: int, seed: int) -> list[str]:
    """The packages of a step (steps count from 0), at most `tasks`, none twice.

    All packages are gone through in an order drawn anew each time; what is left over at the end, fewer than a step
    takes, waits for the next time through.
    """
    tasks = min(tasks, len(names))
    a_pass = len(names) // tasks
    order = sorted(names)
    random.Random(number("tasks", seed, step // a_pass)).shuffle(order)
    at = step % a_pass * tasks
    return order[at : at + tasks]


def rollout_seed(seed: int, step: int, package: str, k: int, attempt: int) -> int:
    """The seed of one rollout. `attempt` counts what the infrastructure spoilt: a new one gets a new seed."""
    return number("rollout", seed, step, package, k, attempt)


def number(*parts: object) -> int:
    """A seed of 60 bits that depends on the parts alone."""
    return int(digest([str(part) for part in parts])[:15], 16)
