"""One writer at a time: a flock on a repository, and a journal that lets the next writer finish or undo a killed one.

The lock file holds the journal. It is empty unless a writer is between its first visible step and its last:

    pack NAME             a pack of this name is being made visible, or removed
    ref NAME OLD NEW      a ref is being moved (`-` for none)
    head NAME [OLD]       HEAD is being pointed at a branch
    go                    everything the refs need is durable: a successor finishes the moves
    no                    the first move failed: a successor does none

Whoever gets the flock and finds a journal repairs first. Unfinished packs are removed: ours at once, those of
another git when they are a day old. A flock is not fair; a second one, the turnstile, makes writers queue at the
door. Who came through it may come back past the queue for a moment: to hand over after each write would leave the
store idle until the next one has woken up.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import threading
import time
from pathlib import Path

from rover_store.errors import LostRace, StoreError, UsageError
from rover_store.packs import TMP_PREFIX
from rover_store.ref_moves import drop_lock, move
from rover_store.refs import Refs

LOCK_FILE, TURNSTILE = "rover.flock", "rover.turnstile"
_LINE = re.compile(
    r"pack pack-[0-9a-f]{40}|ref refs/\S+ ([0-9a-f]{40}|-) ([0-9a-f]{40}|-)"
    r"|head (refs/\S+|[0-9a-f]{40})( \S+)?|go|no"
)
_FOREIGN_AGE_S = 86_400
#: seconds for which a writer need not queue again
_TURN_S = 0.05
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class RepositoryLock:
    """The flock of one repository; taken again by the same thread, it only counts."""

    def __init__(self, git: Path, refs: Refs) -> None:
        self.git = git
        self._refs = refs
        self._thread = threading.RLock()
        self._depth = 0
        self._fd = self._door = -1
        self._pid = os.getpid()
        self._torn = False
        self._turn_ends = 0.0

    def __enter__(self) -> RepositoryLock:
        if self._pid != os.getpid():  # a forked child holds nothing of its parent's
            self._pid, self._thread, self._depth = os.getpid(), threading.RLock(), 0
            self._fd = self._door = -1
        self._thread.acquire()
        try:
            if self._depth == 0:
                self._close()  # what an interrupt on the way out left: we would wait for ourselves
                self._take()
                self.recover()
            self._depth += 1
        except BaseException:
            self._close()
            self._thread.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._depth -= 1
            self._close()
        finally:
            self._thread.release()

    @property
    def held(self) -> bool:
        """Whether this process's current writer holds it."""
        return self._depth > 0 and self._pid == os.getpid()

    def write(self, *lines: str) -> None:
        """Add lines to the journal."""
        text = "".join(f"{line}\n" for line in lines)
        data = memoryview((f"\n{text}" if self._torn else text).encode("utf-8", "surrogateescape"))
        self._torn = True  # until the last byte is written
        while data:
            data = data[os.write(self._fd, data) :]
        self._torn = False

    def clear(self) -> None:
        """The journal is done with."""
        os.ftruncate(self._fd, 0)
        self._torn = False

    def recover(self) -> None:
        """Finish or undo what the journal tells of a writer that did not end. Only under the lock."""
        folder = self.git / "objects" / "pack"
        self._remove_unfinished(folder)
        lines = self._journal()
        if not lines:
            return
        for line in lines:
            if line[0] == "pack" and not (folder / f"{line[1]}.idx").exists():
                (folder / f"{line[1]}.pack").unlink(missing_ok=True)
            elif line[0] == "ref":
                drop_lock(self.git / line[1], None if line[3] == "-" else line[3])
            elif line[0] == "head":
                drop_lock(self.git / "HEAD", line[1])
        if any(line[0] == "ref" for line in lines):
            drop_lock(self.git / "packed-refs")
        if ["go"] in lines and ["no"] not in lines:
            self._finish_moves([line for line in lines if line[0] in ("ref", "head")])
        self.clear()

    # --- within ------------------------------------------------------------------------------------------
    def _take(self) -> None:
        """Wait for the lock. A descriptor is remembered before it is locked: an interrupt may come at any moment."""
        if time.monotonic() < self._turn_ends:
            self._fd = _opened(self.git / LOCK_FILE)
            try:
                _lock(self._fd, self.git, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                self._close()
        self._door = _opened(self.git / TURNSTILE)
        _lock(self._door, self.git)
        self._fd = _opened(self.git / LOCK_FILE)
        _lock(self._fd, self.git)
        self._close_door()
        self._turn_ends = time.monotonic() + _TURN_S

    def _close(self) -> None:
        if self._depth == 0:
            self._close_door()
            if self._fd >= 0:
                _unlock(self._fd)
                fd, self._fd = self._fd, -1
                _shut(fd)

    def _close_door(self) -> None:
        if self._door >= 0:
            _unlock(self._door)
            fd, self._door = self._door, -1
            _shut(fd)

    def _journal(self) -> list[list[str]]:
        text = b""
        while part := os.pread(self._fd, 1 << 20, len(text)):
            text += part
        if not text:
            return []
        found = text.decode("utf-8", "surrogateescape").splitlines()
        return [line.split(" ") for line in found if _LINE.fullmatch(line)] or [["no"]]

    def _remove_unfinished(self, folder: Path) -> None:
        for file in os.listdir(folder):
            if file.startswith("tmp_"):
                path = folder / file
                with contextlib.suppress(FileNotFoundError):
                    if file.startswith(TMP_PREFIX) or time.time() - path.stat().st_mtime > _FOREIGN_AGE_S:
                        path.unlink()

    def _finish_moves(self, lines: list[list[str]]) -> None:
        """Do the journal's moves that are not done yet. A ref that someone moved elsewhere stays there."""
        moves: dict[str, tuple[str | None, str | None]] = {}
        for line in lines:
            name, old, new = line[1:] if line[0] == "ref" else ("HEAD", (*line, "-")[2], line[1])
            before, after = (None if v == "-" else v for v in (old, new))
            now = self._refs.head_text() if name == "HEAD" else self._refs.peek(name)
            if (now == before or (name == "HEAD" and before is None)) and now != after:
                moves[name] = (now, after)
        if not moves:
            return
        try:
            move(self._refs, moves)
        except (LostRace, UsageError):  # another git was here meanwhile: what still can move, moves
            for name, pair in moves.items():
                with contextlib.suppress(LostRace, UsageError):
                    move(self._refs, {name: pair})


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreError(f"cannot write to the store: {error.strerror}: {path.parent}") from None


def _lock(fd: int, git: Path, how: int = fcntl.LOCK_EX) -> None:
    """Take the flock of an open file, waited for unless `how` says otherwise."""
    try:
        fcntl.flock(fd, how)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        kind = f" ({file_system(git)})"
        message = f"{git}: its file system{kind} cannot lock files: {error.strerror}"
        raise StoreError(message, hint="keep the store on a local disk; share it by `rover clone` and `push`") from None


def _unlock(fd: int) -> None:
    # a child forked meanwhile shares the descriptor: closing ours would leave its lock
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_UN)


def _shut(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)


def file_system(path: Path) -> str:
    """Type of the file system that a path is on (`ext4`, `nfs4`, `fuse.sshfs`), as the kernel names it."""
    here, best = str(path.absolute()), ("", "unknown")
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mounts").read_text("utf-8", "replace").splitlines():
            _, point, kind, *_ = line.split(" ")
            point = point.replace("\\040", " ")
            inside = here == point or here.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best[0]):
                best = (point, kind)
    return best[1]
