"""Pipes between the supervisor and a job."""

from __future__ import annotations

import os


class Pipes:
    """Some pipes: `own` are the ends to read, `ends` go to a child. All that is open is closed in the end."""

    def __init__(self, count: int, owner: int = -1) -> None:
        """`owner` is the user whose job writes, where that is another one: it may open /dev/stdout."""
        pairs = [os.pipe2(os.O_CLOEXEC) for _ in range(count)]
        if owner >= 0:
            for near, _ in pairs:
                os.fchown(near, owner, owner)
        self.own = [near for near, _ in pairs]
        self.ends = [far for _, far in pairs]

    def close_ends(self) -> None:
        while self.ends:
            os.close(self.ends.pop())

    def keep(self) -> list[int]:
        """The ends to read, which the caller closes from now on."""
        kept, self.own = self.own, []
        return kept

    def __enter__(self) -> Pipes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_ends()
        for fd in self.own:
            os.close(fd)
