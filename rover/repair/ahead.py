"""Candidates on several workers at once, with the choice of one worker.

An exhaustive run needs every candidate, so they are evaluated side by side. A lazy run must not pay rollouts for a
candidate behind the one it selects: ahead of their turn, candidates only get the work that costs no rollout. An
answer is given in the order in which it is asked for, so nothing is selected before all that sort earlier are decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from rover.repair.fcr import Option
from rover.repair.trials import Trials


class Ahead:
    """`evaluate` of some trials, with the next candidates worked on meanwhile. Ends with its block."""

    def __init__(self, trials: Trials, options: Sequence[Option], workers: int, *, lazy: bool) -> None:
        self._trials = trials
        self._order = sorted(options, key=lambda o: (o.mask != 0, o.rank))
        self._workers = workers
        self._lazy = lazy
        self._pool: ThreadPoolExecutor | None = None
        self._known: dict[int, Future[bool]] = {}
        self._looked: dict[int, Future[None]] = {}

    def __enter__(self) -> Ahead:
        if self._workers > 1 and len(self._order) > 2:
            self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="candidate")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def __call__(self, option: Option) -> bool:
        if self._pool is None or option.mask == 0:  # if the control passes, nothing else is evaluated
            return self._trials.evaluate(option)
        if not self._lazy:
            for one in self._order:
                if one.mask and one.mask not in self._known:
                    self._known[one.mask] = self._pool.submit(self._trials.evaluate, one)
            return self._known[option.mask].result()
        here = self._order.index(option)
        for one in self._order[here + 1 : here + self._workers]:
            if one.mask not in self._looked:
                self._looked[one.mask] = self._pool.submit(self._trials.look, one)
        return self._trials.evaluate(option)
