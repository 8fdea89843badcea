"""Living boxes that are used again: handed out with new files, reset, taken back. Safe for threads.

A box whose user raised, or that died, is closed and another takes its place. Which thread opens a box does not
matter: all are spawned by the runtime's launcher, whose one thread they die with.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from rover.sandbox.protocol import Files, Runtime, Sandbox
from rover_store.errors import SandboxError
from rover_store.records import Limits


class Pool:
    """At most `size` boxes of one runtime; a caller that finds them all busy waits."""

    def __init__(self, runtime: Runtime, size: int = 1) -> None:
        self._runtime = runtime
        self._idle: list[Sandbox] = []
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
    def box(self, files: Files, limits: Limits | None = None) -> Iterator[Sandbox]:
        """A box that holds `files`. The last one that came back is the first to go out: it is warm."""
        with self._free:
            box = self._take(files, limits or Limits())
            try:
                yield box
            except BaseException:
                self._drop(box)
                raise
            with self._lock:
                if not self._closed:
                    self._idle.append(box)
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

    def _take(self, files: Files, limits: Limits) -> Sandbox:
        with self._lock:
            if self._closed:
                raise SandboxError("the pool of boxes is closed")
            box = self._idle.pop() if self._idle else None
        if box is not None:
            try:
                box.reset(files, limits=limits)
                return box
            except SandboxError:
                self._drop(box)  # it died while idle
            except BaseException:
                self._drop(box)
                raise
        box = self._runtime.open(files, limits=limits)
        with self._lock:
            if not self._closed:
                self._all[id(box)] = box
                return box
        box.close()
        raise SandboxError("the pool of boxes is closed")

    def _drop(self, box: Sandbox) -> None:
        with self._lock:
            self._all.pop(id(box), None)
        box.close()
