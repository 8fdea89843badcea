"""Coroutines that another thread may cancel: what a session has under way when it is closed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from rover_store.errors import ProviderError

T = TypeVar("T")


class Cancellable(Generic[T]):
    """Runs coroutines on a loop of its own, one at a time; `close` from any thread cancels the one that runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runner: asyncio.Runner | None = None
        self._busy = False  # `run` has the runner, though its task may not have begun
        self._task: asyncio.Task[T] | None = None
        self._closed = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result. ProviderError where it was cancelled from outside."""
        with self._lock:
            if self._closed:
                work.close()
                raise ProviderError("the request was cancelled")
            runner = self._runner = self._runner or asyncio.Runner()
            self._busy = True

        async def tracked() -> T:
            task = self._task = asyncio.current_task()  # no task of its own: an interrupt ends it and the loop at once
            if self._closed and task is not None:
                task.cancel()
            return await work

        try:
            return runner.run(tracked())
        except asyncio.CancelledError:
            raise ProviderError("the request was cancelled") from None
        finally:
            with self._lock:
                self._busy, self._task = False, None

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Cancel what runs, and leave the rest to another call; where nothing does, run `last` and end the loop."""
        with self._lock:
            self._closed = True
            if self._busy:
                if self._task is not None:  # else it cancels itself as it begins
                    self._task.get_loop().call_soon_threadsafe(self._task.cancel)
                return
            runner, self._runner = self._runner, None
        if runner is not None:
            runner.run(last())
            runner.close()
