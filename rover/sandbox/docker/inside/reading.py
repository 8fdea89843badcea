"""Reading a workspace that stands still: a walk over all names, and the bytes of what may have changed."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from rover.sandbox.docker.inside.tracker import Told, Tracker, writable_elsewhere
from rover.sandbox.inside.confine import WORK
from rover.sandbox.inside.workspace import MAX_PATH, Changes, Found

Items = list[tuple[str, os.stat_result]]


class Known(NamedTuple):
    """A file as it was read last."""

    ctime: int
    size: int
    blob: str


def walk(enter: Callable[[str], bool]) -> Iterator[tuple[str, os.stat_result, Items]]:
    """Each folder, from the root "" on: its path, itself, what it holds. `enter` says which to go into."""
    todo = [""]
    while todo:
        folder = todo.pop()
        info = os.lstat(f"{WORK}/{folder}")
        with os.scandir(f"{WORK}/{folder}") as found:
            items = [(item.name, item.stat(follow_symlinks=False)) for item in found]
        yield folder, info, items
        for name, status in items:
            path = f"{folder}/{name}" if folder else name
            if stat.S_ISDIR(status.st_mode) and enter(path):
                todo.append(path)


class Reading:
    """One reading. Afterwards `known` holds what was found by inode, `open` the inodes that somebody could still
    write to, `latest` the ctime of the last change among what was read."""

    def __init__(
        self, tracker: Tracker, told: Told, everything: bool, living: bool, known: dict[int, Known], open: set[int]
    ) -> None:
        self._tracker, self._told, self._everything, self._living = tracker, told, everything, living
        self._before, self._were_open = known, open
        self.known: dict[int, Known] = {}
        self.open: set[int] = set()
        self.latest = 0
        self._unsure: set[int] = set()  # inodes whose times may not tell of a change
        self._bytes: dict[int, bytes] = {}
        self._refused: dict[str, str] = {}

    def changes(
        self,
        start: Mapping[str, Found],
        laid: Mapping[str, tuple[int, int, str]],
        touched: set[int],
        host: set[str],
        limit: int,
    ) -> Changes:
        """Compare with the start state. `touched` gets the inodes that were written to; `host` has bytes already."""
        files = self._files()
        touched |= self._unsure
        changed: list[tuple[str, os.stat_result]] = []
        gone = set(start)
        before, known, nothing = self._before, self.known, (0, 0, "")
        for path, info in files:
            gone.discard(path)
            inode, ctime, _ = laid.get(path, nothing)
            if inode == info.st_ino and ctime == info.st_ctime_ns and inode not in touched:
                known[inode] = before[inode]  # what is laid out is known
            else:
                changed.append((path, info))
        entries: dict[str, Found] = {}
        new: dict[str, bytes] = {}
        size = 0
        for path, info in sorted(changed, key=lambda item: item[0].encode().split(b"/")):
            if stat.S_ISREG(info.st_mode):
                if size + info.st_size > limit:
                    self._refused[path] = "over the limit on the size of the workspace"
                    gone |= {path} & start.keys()
                    continue
                size += info.st_size
            entry, data = self._entry(path, info)
            if entry != start.get(path):
                entries[path] = entry
            if data is not None and entry[0] not in host:
                new[entry[0]] = data
        return Changes(entries, gone, new, self._refused)

    def _files(self) -> Items:
        """All files and links that can be kept."""
        files: Items = []
        for folder, info, items in walk(self._fits):
            covered = self._tracker.covers(info.st_ino)
            if not covered:
                self._tracker.watch(f"{WORK}/{folder}", info.st_ino)
            written = self._told.written.get(info.st_ino, ())
            opened = self._told.opened.get(info.st_ino, ())
            prefix = f"{folder}/" if folder else ""
            sure = covered and not self._everything
            for name, status in items:
                kind = stat.S_IFMT(status.st_mode)
                if kind == stat.S_IFDIR or not self._fits(path := prefix + name):
                    continue
                if kind != stat.S_IFREG and kind != stat.S_IFLNK:
                    self._refused[path] = "not a file, folder or link"
                    continue
                files.append((path, status))
                if not sure or name in written or status.st_ino in self._were_open:
                    self._unsure.add(status.st_ino)
                elif name in opened and kind == stat.S_IFREG and writable_elsewhere(f"{WORK}/{path}"):
                    self._unsure.add(status.st_ino)
                    self.open.add(status.st_ino)
        return files

    def _fits(self, path: str) -> bool:
        """Whether a path can be kept; else it is noted why not."""
        if len(path) <= MAX_PATH and path.isascii():
            return True
        raw = os.fsencode(path)
        try:
            raw.decode()
        except UnicodeDecodeError:
            self._refused[raw.decode("utf-8", "backslashreplace")] = "its name is not UTF-8"
            return False
        if len(raw) > MAX_PATH:
            self._refused[f"{path[:100]}..."] = f"its path is longer than {MAX_PATH} bytes"
            return False
        return True

    def _entry(self, path: str, info: os.stat_result) -> tuple[Found, bytes | None]:
        """What a snapshot says of a path, and its bytes where they were read."""
        if stat.S_ISLNK(info.st_mode):
            data = os.fsencode(os.readlink(f"{WORK}/{path}"))
            return (blob_id(data), len(data), "link"), data
        kind = "executable" if info.st_mode & 0o100 else "file"
        found = self.known.get(info.st_ino)  # read in this pass, under another name
        if found is None:
            found = self._before.get(info.st_ino)
            if found is None or found[:2] != (info.st_ctime_ns, info.st_size) or info.st_ino in self._unsure:
                found = self._read(path, info)
        self.known[info.st_ino] = found
        return (found.blob, found.size, kind), self._bytes.pop(info.st_ino, None)

    def _read(self, path: str, info: os.stat_result) -> Known:
        fd = os.open(f"{WORK}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb", buffering=0) as stream:
            data = stream.read()
        self._bytes[info.st_ino] = data
        self.latest = max(self.latest, info.st_ctime_ns)
        if self._living and writable_elsewhere(f"{WORK}/{path}"):
            self.open.add(info.st_ino)
        return Known(info.st_ctime_ns, len(data), blob_id(data))


def blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
