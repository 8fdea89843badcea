"""What the commands of training share: the extra that they need, and a stop that loses nothing."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from rover_store.errors import UsageError


def need_extra() -> None:
    """UsageError in one line where the extra `train` is not installed."""
    from rover_train.extra import needed

    needed()


def writable(**options: Path | None) -> None:
    """UsageError where a file that an option names could not be written, before any work is done for it."""
    from rover_train import places

    for name, path in options.items():
        if path is not None:
            places.refuse(path)
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            raise UsageError(f"--{name} {path}: no file can be written there")


class Stopping:
    """Within the block the first Ctrl-C (or SIGTERM) asks; the second one interrupts. Call it: whether it asked."""

    def __init__(self, tell: Callable[[], object]) -> None:
        self._tell = tell
        self._asked = False
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        return self._asked

    def __enter__(self) -> Stopping:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._struck)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _struck(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        self._tell()
