"""Living boxes that are used again: handed out with new files, reset, taken back. Safe for threads.

A box whose user raised, or that died, is closed and another takes its place. Which thread opens a box does not
matter: all are spawned by the runtime's launcher, whose one thread they die with.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from rover.sandbox.protocol import Files, Place, Runtime, Sandbox
from rover_store.errors import SandboxError
from rover_store.records import Limits


class Pool:
    """At most `size` boxes of one runtime; a caller that finds them all busy waits."""

    def __init__(self, runtime: Runtime, size: int = 1) -> None:
        self._runtime = runtime
        self._idle: list[tuple[Place | None, Sandbox]] = []
        self._all: dict[int, Sandbox] = {}
        self._free = threading.Semaphore(size)
        self._lock = threading.Lock()
        self._closed = False
        self.size = size

    def warm(self) -> None:
        """Open all boxes now, empty."""
        with contextlib.ExitStack() as stack:
            for _ in range(self.size):
                stack.enter_context(self.box({}))

    @contextlib.contextmanager
    def box(self, files: Files, limits: Limits | None = None, place: Place | None = None) -> Iterator[Sandbox]:
        """A box of this place that holds `files`. The last that came back is the first to go out: it is warm."""
        with self._free:
            box = self._take(files, limits or Limits(), place)
            try:
                yield box
            except BaseException:
                self._drop(box)
                raise
            with self._lock:
                if not self._closed:
                    self._idle.append((place, box))
                    return
            self._drop(box)

    def close(self) -> None:
        """Close every box, also those in use: what runs in them is cancelled."""
        with self._lock:
            self._closed = True
            boxes = list(self._all.values())
            self._idle.clear()
            self._all.clear()
        for box in boxes:
            box.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, files: Files, limits: Limits, place: Place | None) -> Sandbox:
        with self._lock:
            if self._closed:
                raise SandboxError("the pool of boxes is closed")
            box, other = self._waiting(place)
        if other is not None:
            self._drop(other)
        if box is not None:
            try:
                box.reset(files, limits=limits)
                return box
            except SandboxError:
                self._drop(box)  # it died while idle
            except BaseException:
                self._drop(box)
                raise
        box = self._runtime.open(files, limits=limits, **({} if place is None else {"place": place}))
        with self._lock:
            if not self._closed:
                self._all[id(box)] = box
                return box
        box.close()
        raise SandboxError("the pool of boxes is closed")

    def _waiting(self, place: Place | None) -> tuple[Sandbox | None, Sandbox | None]:
        """A box of this place that waits; else the one of another place that has to go, where there are too many."""
        for number in reversed(range(len(self._idle))):
            if self._idle[number][0] == place:
                return self._idle.pop(number)[1], None
        full = self._idle and len(self._all) >= self.size
        return None, self._idle.pop(0)[1] if full else None

    def _drop(self, box: Sandbox) -> None:
        with self._lock:
            self._all.pop(id(box), None)
        box.close()
