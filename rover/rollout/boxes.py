"""Living boxes that are used again: one a worker, reset to other files for every job."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rover.sandbox.protocol import Files, Runtime, Sandbox
from rover_store.records import Limits


class Boxes:
    """A pool of boxes of one runtime. Safe for threads."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._idle: dict[Limits, list[Sandbox]] = {}
        self._busy: list[Sandbox] = []
        self._lock = threading.Lock()

    @contextmanager
    def box(self, files: Files, limits: Limits | None = None) -> Iterator[Sandbox]:
        """A box that holds `files`. It goes back into the pool, or is closed where anything was raised."""
        limits = limits or Limits()
        with self._lock:
            idle = self._idle.get(limits, [])
            box = idle.pop() if idle else None
        if box is None:
            box = self._runtime.open(files, limits=limits)
        else:
            try:
                box.reset(files)
            except BaseException:
                box.close()
                raise
        with self._lock:
            self._busy.append(box)
        try:
            yield box
        except BaseException:
            self._forget(box)
            box.close()
            raise
        self._forget(box)
        with self._lock:
            self._idle.setdefault(limits, []).append(box)

    def close(self) -> None:
        """Close every idle box."""
        with self._lock:
            boxes = [box for idle in self._idle.values() for box in idle]
            self._idle.clear()
        for box in boxes:
            box.close()

    def _forget(self, box: Sandbox) -> None:
        with self._lock:
            self._busy.remove(box)
