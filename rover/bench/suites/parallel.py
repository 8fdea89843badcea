"""Work over threads, each with a living engine of its own; results come in the order of the work."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import TypeVar

from rover.rollout.engine import Engine
from rover.sandbox.protocol import Runtime

T = TypeVar("T")
R = TypeVar("R")
#: told what was finished: stage, how many of it, out of how many, and its name
Told = Callable[[str, int, int, str], None]


class Pool:
    """A few engines. A context manager: closing ends their boxes. `told` is called by one thread at a time."""

    def __init__(self, runtime: Runtime, workers: int = 1, told: Told = lambda stage, done, total, name: None) -> None:
        self.runtime = runtime
        self.workers = max(1, workers)
        self._told = told
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._engines: list[Engine] = []
        self._free: queue.SimpleQueue[Engine] = queue.SimpleQueue()
        self._stopped = threading.Event()
        for _ in range(self.workers):
            self._fresh()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for engine in self._engines:
            engine.close()

    def told(self, stage: str, total: int, name: str) -> None:
        """One more piece of a stage is finished."""
        with self._lock:
            self._counts[stage] = self._counts.get(stage, 0) + 1
            self._told(stage, self._counts[stage], total, name)

    def map(self, work: Callable[[Engine, T], R], items: Sequence[T]) -> list[R]:
        """The work on each item, in order. The first error ends it; what was begun is finished or broken off."""

        def one(item: T) -> R:
            if self._stopped.is_set():
                raise InterruptedError
            engine = self._free.get()
            try:
                return work(engine, item)
            finally:
                self._free.put(engine)

        threads = ThreadPoolExecutor(self.workers, thread_name_prefix="suite")
        waiting: set[Future[R]] = set()
        try:
            futures = [threads.submit(one, item) for item in items]
            waiting = set(futures)
            while waiting:
                finished, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in finished:
                    future.result()
            return [future.result() for future in futures]
        except BaseException:
            self._stopped.set()
            for future in waiting:
                future.cancel()
            for engine in self._engines:
                engine.close()
            raise
        finally:
            threads.shutdown(wait=True, cancel_futures=True)

    def _fresh(self) -> None:
        engine = Engine(self.runtime)
        self._engines.append(engine)
        self._free.put(engine)
