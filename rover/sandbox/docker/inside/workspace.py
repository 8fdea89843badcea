"""The workspace on the container's tmpfs: laid out from blobs, put back by making again what changed, listed.

No file system can be mounted here, so nothing can be thrown away at once. Instead every file of a start state is
known by its inode and its ctime, which no command can set: what still has both, and was not written through a
mapping (see `tracker`), is as it was laid out. A folder in which anything changed is made again around those of its
files that did not, so that modes, attributes and the order of its entries are those of a fresh one.

Nothing that could change the workspace runs while it is read or put back.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from typing import Any

from rover.sandbox.docker.inside.jail import AGENT
from rover.sandbox.docker.inside.reading import Known, Reading, walk
from rover.sandbox.docker.inside.removal import empty, fresh_folder, remove
from rover.sandbox.docker.inside.tracker import Told, Tracker
from rover.sandbox.inside.confine import PRIVATE, WORK
from rover.sandbox.inside.workspace import EPOCH, KEEP, Changes, Found

STORE = f"{PRIVATE}/store"
CLOCK_REALTIME_COARSE = 5  # what the kernel dates files by


class Workspace:
    """One workspace. `known` holds the ids of blobs that the host has."""

    def __init__(self, in_flight: Callable[[], bool]) -> None:
        os.makedirs(STORE, exist_ok=True)
        self._in_flight = in_flight
        self._stored: dict[str, int] = {}  # blob -> size
        self._start: dict[str, Found] = {}
        self._folders: dict[str, list[str]] = {"": []}  # folder of the start state -> names in it, sorted
        self._laid: dict[str, tuple[int, int, str]] = {}  # path -> inode, ctime, blob (a folder has none)
        self._known: dict[int, Known] = {}  # by inode
        self._touched: set[int] = set()  # inodes that were written to since they were laid out
        self._open: set[int] = set()  # inodes that somebody could still write to
        self._lost = True  # what was laid out cannot be trusted
        self._tracker = Tracker()
        self.known: set[str] = set()
        self.limit = 0  # bytes that may have changed
        self._latest = 0  # the last change of what is known
        self._ballast, self._ballast_size = -1, -1

    # --- start state ---------------------------------------------------------------------------------------
    def missing(self, files: list[list[Any]]) -> list[str]:
        """Ids of blobs that must be sent before these files, [path, id, size], can be laid out."""
        return [blob for blob in dict.fromkeys(blob for _, blob, _ in files) if blob not in self._stored]

    def put(self, blob: str, data: memoryview) -> None:
        fd = os.open(f"{STORE}/{blob}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        _write(fd, data)
        self._stored[blob] = len(data)

    def lay_out(self, files: list[list[Any]]) -> None:
        """Make these files the start state. OSError where a path is a file and a folder."""
        folders: dict[str, set[str]] = {"": set()}
        for path, _, _ in files:
            while path:
                parent, _, name = path.rpartition("/")
                known = parent in folders
                folders.setdefault(parent, set()).add(name)
                if known:
                    break
                path = parent
        self._start = {path: (blob, size, "file") for path, blob, size in files}
        if clash := next((path for path in self._start if path in folders), None):
            self._start = {}
            raise FileExistsError(f"{clash} exists as a file and as a folder")
        self._folders = {folder: sorted(names) for folder, names in folders.items()}
        self._forget()

    def _forget(self) -> None:
        """Drop the oldest blobs that this start state does not use, where they are too many."""
        used = {blob for blob, _, _ in self._start.values()}
        spare = [blob for blob in self._stored if blob not in used]
        over = sum(self._stored[blob] for blob in spare) - KEEP
        for blob in spare:
            if over <= 0:
                break
            over -= self._stored.pop(blob)
            os.unlink(f"{STORE}/{blob}")

    # --- reset ---------------------------------------------------------------------------------------------
    def reset(self, limit: int, room: int) -> None:
        """Put the workspace back to the start state. `room` bytes of the file system are for the start state alone:
        what it does not need of them is taken out of use."""
        self.limit = limit
        spare = room - sum(-(-size // 4096) * 4096 for _, size, _ in self._start.values())
        if spare != self._ballast_size:
            self._weigh_down(-1)
        told = self._tracker.read()
        self._lost |= told.lost or self._in_flight()
        if self._lost:
            self._laid, self._known = {}, {}
        kept, stale = self._prune(told)
        if stale:
            self._rebuild(kept, stale)
        self.known = {blob for blob, _, _ in self._start.values()}
        self._known = {i: Known(ctime, self._start[p][1], blob) for p, (i, ctime, blob) in self._laid.items() if blob}
        self._touched, self._open, self._lost = set(), set(), False
        if spare != self._ballast_size:
            self._weigh_down(spare)
        if stale:
            self._latest = max(ctime for _, ctime, _ in self._laid.values())
        self._tracker.drop()

    def _prune(self, told: Told) -> tuple[set[str], set[str]]:
        """Remove what is not as it was laid out. Gives the files that stay, and the folders to make again."""
        kept, stale, seen = set[str](), set[str](), {""}
        aside = ""
        for folder, info, items in walk(lambda path: path in self._folders):
            if self._laid.get(folder, (0, 0, ""))[:2] != (info.st_ino, info.st_ctime_ns):
                stale.add(folder)
            written, covered = told.written.get(info.st_ino, ()), self._tracker.covers(info.st_ino)
            for name, status in items:
                path = f"{folder}/{name}" if folder else name
                is_folder = stat.S_ISDIR(status.st_mode)
                if is_folder and path in self._folders:
                    seen.add(path)
                    continue
                laid = (status.st_ino, status.st_ctime_ns, self._start.get(path, ("",))[0])
                silent = covered and name not in written and status.st_ino not in self._touched
                if silent and not is_folder and self._laid.get(path) == laid:
                    kept.add(path)
                    continue
                aside = aside or self._make_aside()
                remove(f"{WORK}/{path}", aside)
        if aside:
            os.rmdir(aside)
        for path in self._start.keys() - kept:
            stale.add(path.rpartition("/")[0])
        stale |= self._folders.keys() - seen
        for folder in list(stale):
            while folder:
                folder = folder.rpartition("/")[0]
                stale.add(folder)
        self._laid = {p: v for p, v in self._laid.items() if p in kept or (p in self._folders and p not in stale)}
        return kept, stale

    def _rebuild(self, kept: set[str], stale: set[str]) -> None:
        """Make the stale folders again, with the files that were kept moved into them."""
        stage = self._make_aside()
        self._fill("", stage, kept, stale)
        for name in os.listdir(WORK):
            if f"{WORK}/{name}" != stage:
                _drop(f"{WORK}/{name}")
        for name in self._folders[""]:
            os.rename(f"{stage}/{name}", f"{WORK}/{name}")
        os.rmdir(stage)
        for attribute in os.listxattr(WORK):
            os.removexattr(WORK, attribute)
        _finish(WORK)
        for folder in stale:
            for path in (folder, *(f"{folder}/{name}" if folder else name for name in self._folders[folder])):
                info = os.lstat(f"{WORK}/{path}")
                self._laid[path] = (info.st_ino, info.st_ctime_ns, self._start.get(path, ("",))[0])
            self._tracker.watch(f"{WORK}/{folder}", self._laid[folder][0])

    def _fill(self, folder: str, target: str, kept: set[str], stale: set[str]) -> None:
        for name in self._folders[folder]:
            path = f"{folder}/{name}" if folder else name
            if path in kept or (path in self._folders and path not in stale):
                os.rename(f"{WORK}/{path}", f"{target}/{name}")
            elif path in self._folders:
                os.mkdir(f"{target}/{name}", 0o755)
                self._fill(path, f"{target}/{name}", kept, stale)
            else:
                self._copy(self._start[path][0], f"{target}/{name}")
        _finish(target)

    def _copy(self, blob: str, path: str) -> None:
        with open(f"{STORE}/{blob}", "rb", buffering=0) as stream:
            data = stream.read()
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.fchown(fd, AGENT, AGENT)
        _write(fd, memoryview(data))
        os.utime(path, (EPOCH, EPOCH))

    def _make_aside(self) -> str:
        """An empty folder, also where commands have used up all there is: then the ballast gives way."""
        try:
            return fresh_folder(WORK, self._folders[""])
        except OSError:
            self._weigh_down(-1)
            return fresh_folder(WORK, self._folders[""])

    def _weigh_down(self, size: int) -> None:
        """Hold so many bytes of the file system in a file without a name; -1 for no such file."""
        if self._ballast >= 0:
            os.close(self._ballast)
            self._ballast = -1
        self._ballast_size = size
        if size >= 0:
            self._ballast = os.open(WORK, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
            if size:
                os.posix_fallocate(self._ballast, 0, size)

    def settle(self) -> None:
        """Before anything may change: wait until the kernel's clock for files has moved on from what is known, so that
        what changes has another ctime. A clock that was set back is not waited for."""
        end = time.monotonic() + 0.1
        while time.clock_gettime_ns(CLOCK_REALTIME_COARSE) <= self._latest and time.monotonic() < end:
            time.sleep(0.0005)

    def tell_openings(self) -> None:
        """From now on processes may live while the workspace is read."""
        if not self._tracker.openings:
            self._tracker.openings = True
            for folder, info, _ in walk(lambda path: True):
                self._tracker.watch(f"{WORK}/{folder}", info.st_ino)

    def snapshot(self, living: bool) -> Changes:
        """What differs from the start state. `living`: a command stands still, and may have files open."""
        told = self._tracker.read()
        everything = told.lost or (not living and self._in_flight())
        self._lost |= everything  # a reset cannot tell what was written to
        reading = Reading(self._tracker, told, everything, living, self._known, self._open)
        changes = reading.changes(self._start, self._laid, self._touched, self.known, self.limit)
        self._known, self._open = reading.known, reading.open
        self.known |= set(changes.new)
        self._latest = max(self._latest, reading.latest)
        self._tracker.drop()
        return changes


def _drop(path: str) -> None:
    """Remove a file, or a folder that holds nothing but folders."""
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        os.unlink(path)
        return
    empty(path)
    os.rmdir(path)


def _finish(folder: str) -> None:
    os.chown(folder, AGENT, AGENT)
    os.chmod(folder, 0o755)
    os.utime(folder, (EPOCH, EPOCH))


def _write(fd: int, data: memoryview) -> None:
    try:
        while data:
            data = data[os.write(fd, data) :]
    finally:
        os.close(fd)
