"""Files in memory that a descriptor stands for: what jobs read, and what they write their results to."""

from __future__ import annotations

import os

from rover.sandbox.docker.inside.jail import AGENT


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
