"""Reading files of a store: a pipe or a device among them, which no writer of ours puts there, is not waited for."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def open_plain(path: str | Path) -> int:
    """A descriptor for reading. OSError, as of `open`, also where the path is no plain file."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe that nobody writes to would block
    kind = os.fstat(fd).st_mode
    if stat.S_ISREG(kind):
        return fd
    os.close(fd)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "not a plain file", str(path))


def read_plain(path: str | Path) -> bytes:
    """All of a plain file."""
    with os.fdopen(open_plain(path), "rb") as file:
        return file.read()
