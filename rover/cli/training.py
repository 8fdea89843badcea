"""What the commands of training share: the extra that they need, and a stop that loses nothing."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


def need_extra() -> None:
    """UsageError in one line where the extra `train` is not installed."""
    from rover_train.extra import needed

    needed()


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
