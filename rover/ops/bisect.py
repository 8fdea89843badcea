"""Searching history for the first bad commit, with a command that judges one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from rover_store.errors import UsageError
from rover_store.history.ancestry import bisect_order

if TYPE_CHECKING:
    from rover_store.store import Store

SKIP = 125
#: what a shell says of a command that it cannot run
_CANNOT = (126, 127)


class Tried(NamedTuple):
    """One commit that was tried. `left`: how many may be the first bad one after it."""

    commit: str
    verdict: str  # good, bad, skip
    left: int


class Culprit(NamedTuple):
    """The first bad commit; `skipped` are those right before it that could not be tested."""

    commit: str
    author: str
    time: int
    subject: str
    tried: tuple[Tried, ...]
    skipped: tuple[str, ...]


def bisect(store: Store, good: str, bad: str, command: str, tell: Callable[[Tried], None]) -> Culprit:
    """Halve the line of first parents between a good and a bad revision until one commit is left.

    UsageError where good is not on the line of bad, or the command cannot be run or is killed.
    """
    good, bad = store.resolve(good), store.resolve(bad)
    tried: list[Tried] = []
    skipped: list[str] = []
    step = bisect_order(store, good, bad)
    while step.commit is not None:
        verdict = _try(store, command, step.commit)
        if verdict == "skip":
            skipped.append(step.commit)
        good, bad = (step.commit, bad) if verdict == "good" else (good, bad)
        bad = step.commit if verdict == "bad" else bad
        here, step = step.commit, bisect_order(store, good, bad, skipped)
        tried.append(Tried(here, verdict, step.left))
        tell(tried[-1])
    found = store.commit(step.first)
    between = [s for s in skipped if step.left > 1 and s != found.id]
    return Culprit(found.id, found.author, found.time, found.subject, tuple(tried), tuple(between))


def _try(store: Store, command: str, commit: str) -> str:
    environment = {**os.environ, "ROVER_STORE": str(store.root.resolve()), "ROVER_REV": commit}
    sys.stderr.flush()
    done = subprocess.run(command.replace("{rev}", commit), shell=True, env=environment, stdout=2, check=False)
    if done.returncode == 0:
        return "good"
    if done.returncode == SKIP:
        return "skip"
    if done.returncode in _CANNOT or not 0 < done.returncode < 128:
        raise UsageError(f"the command ended with {done.returncode} at {commit[:10]}; the search stops")
    return "bad"
