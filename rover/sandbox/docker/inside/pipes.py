"""What jobs read and write: pipes, and files in memory that a descriptor stands for."""

from __future__ import annotations

import os

from rover.sandbox.docker.inside.jail import AGENT


class Pipes:
    """Some pipes: `own` are the ends to read, `ends` go to a child. All that is open is closed in the end."""

    def __init__(self, count: int) -> None:
        pairs = [os.pipe2(os.O_CLOEXEC) for _ in range(count)]
        for near, _ in pairs:
            os.fchown(near, AGENT, AGENT)  # a job may open /dev/stdout
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


class Content:
    """A file in memory, at its start."""

    def __init__(self, data: bytes = b"") -> None:
        self.fd = os.memfd_create("content")
        os.fchown(self.fd, AGENT, AGENT)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.fd, rest) :]
        os.lseek(self.fd, 0, os.SEEK_SET)

    def read(self, most: int) -> bytes:
        return os.pread(self.fd, most, 0)

    def __enter__(self) -> Content:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)
