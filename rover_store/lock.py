"""One writer at a time: a flock on a repository, and a journal that lets the next writer finish or undo a killed one.

The lock file holds the journal. It is empty unless a writer is between its first visible step and its last:

    pack NAME             a pack of this name is being made visible, or removed
    ref NAME OLD NEW      a ref is being moved (`-` for none)
    head NAME             HEAD is being pointed at a branch
    go                    everything the refs need is durable: a successor finishes the moves
    no                    the first move failed: a successor does none

Whoever gets the flock and finds a journal repairs first. Unfinished packs (`tmp_pack_rover_*`) are removed.
"""

from __future__ import annotations

import fcntl
import os
import re
import threading
from pathlib import Path

from rover_store.errors import StoreError
from rover_store.packs import TMP_PREFIX
from rover_store.refs import Refs

LOCK_FILE = "rover.flock"
_LINE = re.compile(
    r"pack pack-[0-9a-f]{40}|ref refs/\S+ ([0-9a-f]{40}|-) ([0-9a-f]{40}|-)|head refs/heads/\S+|go|no"
)


class RepositoryLock:
    """The flock of one repository; taken again by the same thread, it only counts."""

    def __init__(self, git: Path, refs: Refs) -> None:
        self.git = git
        self._refs = refs
        self._thread = threading.RLock()
        self._depth = 0
        self._fd = -1

    def __enter__(self) -> RepositoryLock:
        self._thread.acquire()
        try:
            if self._depth == 0:
                self._fd = self._take()
                self._recover()
            self._depth += 1
        except BaseException:
            self._close()
            self._thread.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._close()
        self._thread.release()

    @property
    def held(self) -> bool:
        """Whether this process's current writer holds it."""
        return self._depth > 0

    def write(self, *lines: str) -> None:
        """Add lines to the journal."""
        os.write(self._fd, "".join(f"{line}\n" for line in lines).encode())

    def clear(self) -> None:
        """The journal is done with."""
        os.ftruncate(self._fd, 0)

    def _take(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            fd = os.open(self.git / LOCK_FILE, flags, 0o644)
        except OSError as error:
            raise StoreError(f"cannot write to the store: {error.strerror}: {self.git}") from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _close(self) -> None:
        if self._fd >= 0 and self._depth == 0:
            os.close(self._fd)
            self._fd = -1

    def _recover(self) -> None:
        folder = self.git / "objects" / "pack"
        for file in os.listdir(folder):
            if file.startswith(TMP_PREFIX):
                (folder / file).unlink(missing_ok=True)
        text = os.pread(self._fd, 1 << 20, 0).decode("utf-8", "replace")
        if not text:
            return
        lines = [line.split(" ") for line in text.splitlines() if _LINE.fullmatch(line)]
        for line in lines:
            if line[0] == "pack" and not (folder / f"{line[1]}.idx").exists():
                (folder / f"{line[1]}.pack").unlink(missing_ok=True)
            elif line[0] == "ref":
                self._refs.drop_lock(line[1])
            elif line[0] == "head":
                self._refs.drop_lock("HEAD")
        if ["go"] in lines and ["no"] not in lines:
            self.finish_moves([line for line in lines if line[0] in ("ref", "head")])
        self.clear()

    def finish_moves(self, moves: list[list[str]]) -> None:
        """Do the journal's moves that are not done yet. A ref that someone moved elsewhere stays there."""
        for line in moves:
            if line[0] == "head":
                if self._refs.head() != line[1]:
                    self._refs.set_head(line[1])
                continue
            _, name, old, new = line
            before, after = (None if v == "-" else v for v in (old, new))
            if self._refs.get(name) == before:
                self._refs.compare_and_swap(name, before, after)
