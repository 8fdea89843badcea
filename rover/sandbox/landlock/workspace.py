"""The workspace as a plain folder: laid out by copying, put back by making it anew, listed by reading all of it.

Times cannot be trusted (a mapped write on a tmpfs changes none), so a snapshot hashes every file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from typing import Any

from rover.sandbox.inside.workspace import EPOCH, KEEP, Changes, Walk, Workspace
from rover.sandbox.landlock import folders

#: A measure of the folder takes at most this part of the time.
SHARE = 0.1


class Folder(Workspace):
    """One workspace at `root`; `known` holds the ids of blobs that the host has."""

    def __init__(self, root: str) -> None:
        self.mode = "copy"
        self.known = set()
        self.root = root
        self._base = {}
        self._paths = []
        self._blobs: dict[str, bytes] = {}
        self._size = (1 << 20, 1000)
        self._spent = 0.0
        os.mkdir(root, 0o755)

    def missing(self, files: list[list[Any]]) -> list[str]:
        return [blob for blob in dict.fromkeys(blob for _, blob, _ in files) if blob not in self._blobs]

    def put(self, blob: str, data: memoryview) -> None:
        self._blobs[blob] = bytes(data)

    def lay_out(self, files: list[list[Any]]) -> None:
        """Make these files the start state. OSError where they cannot be: a path is a file and a folder."""
        self._base = {path: (blob, size, "file") for path, blob, size in files}
        self._paths = sorted(self._base)
        for path in self._paths:
            folder = path.rpartition("/")[0]
            while folder:
                if folder in self._base:
                    raise NotADirectoryError(20, f"{folder} is a file and a directory")
                folder = folder.rpartition("/")[0]
        used = {blob for blob, _, _ in self._base.values()}
        spare = [blob for blob in self._blobs if blob not in used]
        over = sum(len(self._blobs[blob]) for blob in spare) - KEEP
        while spare and over > 0:
            over -= len(self._blobs.pop(spare.pop(0)))

    def reset(self, disk_bytes: int | None = None, inodes: int | None = None) -> None:
        if disk_bytes is not None and inodes is not None:
            self._size = (disk_bytes, inodes)
        self.known = {blob for blob, _, _ in self._base.values()}
        folders.empty(self.root)
        made = {""}
        for path, (blob, _, _) in self._base.items():
            folder = path.rpartition("/")[0]
            if folder not in made:
                os.makedirs(f"{self.root}/{folder}", 0o755, exist_ok=True)
                while folder not in made:
                    made.add(folder)
                    folder = folder.rpartition("/")[0]
            fd = os.open(f"{self.root}/{path}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
            with os.fdopen(fd, "wb", buffering=0) as stream:
                data = memoryview(self._blobs[blob])
                while data:
                    data = data[stream.write(data) :]
                os.utime(fd, (EPOCH, EPOCH))
        for folder in sorted(made, reverse=True):
            os.utime(f"{self.root}/{folder}", (EPOCH, EPOCH))
        os.chmod(self.root, 0o755)

    def snapshot(self) -> Changes:
        changes = Changes({}, set(self._base), {}, {})
        pry = folders.Pry()
        fd = pry.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _Walk(self, changes, pry).folder(fd, "")
        finally:
            pry.close(fd)
        for path in [p for p, found in changes.entries.items() if self._base.get(p) == found]:
            del changes.entries[path]  # as at the start
            changes.removed.discard(path)
        self.known |= set(changes.new)
        return changes

    def fits(self, more: int = 0) -> bool:
        """Whether what the folder holds now, and `more` bytes elsewhere, is within the bounds."""
        size, inodes = self._size
        size += sum(item[1] + 4096 for item in self._base.values())
        inodes += 2 * len(self._base)
        used, count = usage(self.root, inodes)
        return used + more <= size and count <= inodes


class _Walk(Walk):
    def __init__(self, workspace: Folder, changes: Changes, pry: folders.Pry) -> None:
        super().__init__(workspace, changes)
        self._pry = pry

    def open(self, name: bytes, flags: int, at: int) -> int:
        return self._pry.open(name, flags, at)

    def close(self, fd: int) -> None:
        self._pry.close(fd)


def usage(root: str, most: int) -> tuple[int, int]:
    """Bytes and number of what lies in a folder, while others write to it. Ends early beyond `most` entries, also where
    there are not descriptors enough to go on. One folder of each level is open at a time, and of a level whose last
    folder is open none."""
    used = count = 0
    pry = folders.Pry()
    way: list[tuple[int, list[str]]] = []  # open folders, and the names of those in them that are still to be seen

    def enter(folder: str, at: int | None) -> None:
        nonlocal used, count
        fd, inner = pry.open(folder, os.O_RDONLY | os.O_DIRECTORY, at), list[str]()
        way.append((fd, inner))
        for name in os.listdir(fd):
            count += 1
            with contextlib.suppress(OSError):  # it went meanwhile
                info = os.stat(name, dir_fd=fd, follow_symlinks=False)
                used += info.st_blocks * 512
                if stat.S_ISDIR(info.st_mode):
                    inner.append(name)

    try:
        enter(root, None)
        while way and count <= most:
            fd, names = way[-1]
            if not names:
                way.pop()
                pry.close(fd)
                continue
            try:
                enter(names.pop(), fd)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    return used, most + 1
                continue  # it went meanwhile
            if not names:
                way.remove((fd, names))
                pry.close(fd)
    finally:
        for fd, _ in way:
            pry.close(fd)
    return used, count


class Pace:
    """When to do something again that takes long: in at most a part of the time."""

    def __init__(self) -> None:
        self._next = 0.0

    def due(self) -> bool:
        return time.monotonic() >= self._next

    def done(self, started: float) -> None:
        now = time.monotonic()
        self._next = now + (now - started) / SHARE
