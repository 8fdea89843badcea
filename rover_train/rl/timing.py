"""Where the seconds of a step go: generate, tools, grading, credit, update, store, and the rest, which is rover's own.

Parts may nest: time spent in an inner part does not count for the outer one. Wall-clock time goes to the log alone,
never into a checkpoint or a rollout.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PARTS = ("generate", "tools", "grading", "credit", "update", "store", "evaluate")


class Timing:
    """Adds up seconds by part. Used by one thread at a time: lanes that play together take turns."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._open: list[tuple[str, list[float]]] = []
        self._began = clock()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time the block under this name."""
        inner = [0.0]
        began = self._clock()
        self._open.append((name, inner))
        try:
            yield
        finally:
            self._open.pop()
            spent = self._clock() - began
            self.add(name, spent - inner[0])
            if self._open:
                self._open[-1][1][0] += spent

    def add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed under this name."""

        def call(*args: Any, **options: Any) -> Any:
            with self.part(name):
                return function(*args, **options)

        return call

    def restart(self) -> None:
        """Begin a step."""
        self.seconds = {}
        self._began = self._clock()

    def report(self) -> dict[str, float]:
        """Seconds by part of this step so far, `rest` and `step` (all of it) at the end."""
        whole = self._clock() - self._began
        out = {name: round(self.seconds.get(name, 0.0), 4) for name in PARTS}
        return {**out, "rest": round(max(0.0, whole - sum(out.values())), 4), "step": round(whole, 4)}
