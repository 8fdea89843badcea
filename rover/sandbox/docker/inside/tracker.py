"""Which files may have changed though their times say nothing.

On tmpfs a write through a mapping moves no time. But such a mapping needs an open file for writing, and when the
last hold on that is gone the kernel tells whoever watches the folder that the file was opened in. Whatever else
could carry the change past that (a new name, a link, a removed name) moves the file's ctime, which a walk sees.
Where processes live on, a file may still be open: then openings are told too, and a lease on the file, which the
kernel refuses while somebody may write, says which of them still count.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import struct
from typing import NamedTuple

from rover.sandbox.docker.inside.jail import as_agent

IN_CLOSE_WRITE, IN_OPEN, IN_ONLYDIR = 0x8, 0x20, 0x01000000
IN_ISDIR, IN_IGNORED, IN_Q_OVERFLOW = 0x40000000, 0x8000, 0x4000
_EVENT = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class Told(NamedTuple):
    """What was told since the last time: by the inode of a folder, the names of files in it that were open for
    writing, and those that were opened. `lost`: not everything was told."""

    written: dict[int, set[str]]
    opened: dict[int, set[str]]
    lost: bool


class Tracker:
    """Watches on folders, by their inodes."""

    def __init__(self) -> None:
        self._fd = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)  # -1: the user has too many; all is hashed then
        self._inodes: dict[int, int] = {}  # watch -> inode of the folder
        self._watches: dict[int, int] = {}
        self.openings = False  # whether openings are told

    def covers(self, inode: int) -> bool:
        return inode in self._watches

    def watch(self, path: str, inode: int) -> None:
        """Watch a folder. Where the kernel refuses, it is not covered."""
        mask = IN_CLOSE_WRITE | IN_ONLYDIR | (IN_OPEN if self.openings else 0)
        number = _libc.inotify_add_watch(self._fd, os.fsencode(path), mask) if self._fd >= 0 else -1
        if number >= 0:
            self._inodes[number], self._watches[inode] = inode, number

    def read(self) -> Told:
        told = Told({}, {}, False)
        while self._fd >= 0:
            try:
                data = os.read(self._fd, 1 << 18)
            except BlockingIOError:
                return told
            told = self._take(told, data)
        return told._replace(lost=True)

    def drop(self) -> None:
        """Forget what has been told so far: it was the supervisor's own doing."""
        self.read()

    def _take(self, told: Told, data: bytes) -> Told:
        place = 0
        while place < len(data):
            number, mask, _, size = _EVENT.unpack_from(data, place)
            name = data[place + _EVENT.size : place + _EVENT.size + size].rstrip(b"\0")
            place += _EVENT.size + size
            if mask & IN_Q_OVERFLOW:
                told = told._replace(lost=True)
            elif mask & IN_IGNORED:  # the folder is gone
                self._watches.pop(self._inodes.pop(number, 0), None)
            elif name and not mask & IN_ISDIR and number in self._inodes:
                into = told.written if mask & IN_CLOSE_WRITE else told.opened
                into.setdefault(self._inodes[number], set()).add(os.fsdecode(name))
        return told


def writable_elsewhere(path: str) -> bool:
    """Whether anybody holds this file open for writing. True also where the kernel does not say."""
    with as_agent(), contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            return False
        finally:
            os.close(fd)
    return True


def in_flight(own: int) -> bool:
    """Whether there are more UNIX sockets than rover's `own`: a descriptor may be under way in one of them, though
    no process is left that could take it."""
    try:
        with open("/proc/net/unix", "rb") as stream:
            return len(stream.read().splitlines()) - 1 > own
    except OSError:
        return True
