"""Refs of a bare repository: read (loose and packed), and compare-and-swap.

A ref is changed by taking NAME.lock, comparing, writing, and renaming: any git does the same, so both are safe
beside each other. Our own writers hold the store's flock as well (`lock`), which makes waiting fair.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from pathlib import Path

from rover_store.errors import LostRace, NotFound, StoreError, UsageError
from rover_store.packs import fsync_folder

HEADS, TAGS, ROVER = "refs/heads/", "refs/tags/", "refs/rover/"
SEALED, OPS, EVIDENCE, CASES = "refs/rover/sealed", "refs/rover/ops", "refs/rover/evidence", "refs/rover/cases/"

_HEX = re.compile(r"[0-9a-f]{40}")
_BAD = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")
_FOREIGN_LOCK_S = 10.0


def check_ref(name: str) -> str:
    """Return a full ref name, or raise UsageError where git would refuse it."""
    parts = name.split("/")
    bad = _BAD.search(name) or any(
        not p or p.startswith((".", "-")) or p.endswith((".lock", ".")) or p == "@" for p in parts
    )
    if bad or not name.startswith("refs/") or len(name) > 250:
        raise UsageError(f"{name.removeprefix(HEADS).removeprefix(TAGS)!r} is not a name that a ref can have")
    return name


class Refs:
    """The refs of one repository."""

    def __init__(self, git: Path) -> None:
        self.git = git

    def get(self, name: str) -> str | None:
        """Id that a ref holds, None if there is no such ref."""
        try:
            value = (self.git / name).read_text("ascii", "replace").strip()
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG):
                return self.packed().get(name)
            raise
        if value.startswith("ref: "):
            return self.get(value[5:])
        if not _HEX.fullmatch(value):
            raise StoreError(f"{name} is damaged: it holds no object id", hint="rover fsck")
        return value

    def all(self, prefix: str = "refs/") -> dict[str, str]:
        """Refs below a prefix, sorted by name."""
        out = {name: value for name, value in self.packed().items() if name.startswith(prefix)}
        for name in self.loose(prefix):
            value = self.get(name)
            if value is not None:
                out[name] = value
        return dict(sorted(out.items()))

    def loose(self, prefix: str = "refs/") -> list[str]:
        """Names of the refs that are files of their own."""
        base = self.git / prefix.rpartition("/")[0]
        found = []
        for folder, _, files in os.walk(base):
            for file in files:
                name = os.path.relpath(os.path.join(folder, file), self.git)
                if name.startswith(prefix) and not name.endswith(".lock"):
                    found.append(name)
        return sorted(found)

    def head(self) -> str:
        """Ref that HEAD points to, or an id where HEAD is detached."""
        try:
            value = (self.git / "HEAD").read_text("ascii", "replace").strip()
        except FileNotFoundError:
            raise StoreError(f"{self.git}: no HEAD; not a git repository") from None
        return value.removeprefix("ref: ")

    def head_id(self) -> str | None:
        """Commit that HEAD names, None before the first one."""
        head = self.head()
        return self.get(head) if head.startswith("refs/") else head

    def compare_and_swap(self, name: str, old: str | None, new: str | None) -> None:
        """Move a ref from `old` to `new` (None: it does not exist). LostRace if it is not at `old`."""
        path = self.git / check_ref(name)
        self._make_room(name, path)
        lock = self._lock(path)
        try:
            found = self.get(name)
            if found != old:
                raise LostRace(name, old, found)
            if new is None:
                self._delete(name, path)
                return
            with open(lock, "w") as file:
                file.write(new + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.rename(lock, path)
            fsync_folder(path.parent)
        finally:
            lock.unlink(missing_ok=True)

    def set_head(self, target: str) -> None:
        """Point HEAD at a branch."""
        lock = self._lock(self.git / "HEAD")
        try:
            with open(lock, "w") as file:
                file.write(f"ref: {check_ref(target)}\n")
                file.flush()
                os.fsync(file.fileno())
            os.rename(lock, self.git / "HEAD")
            fsync_folder(self.git)
        finally:
            lock.unlink(missing_ok=True)

    def drop_lock(self, name: str) -> None:
        """Remove the lock that a killed writer of ours left. Only under the store's flock."""
        (self.git / f"{name}.lock").unlink(missing_ok=True)

    # --- within ------------------------------------------------------------------------------------------
    def packed(self) -> dict[str, str]:
        """Refs that another git packed into one file."""
        try:
            lines = (self.git / "packed-refs").read_text("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return {}
        rows = (line.split(" ", 1) for line in lines if line and line[0] not in "#^")
        return {row[1]: row[0] for row in rows if len(row) == 2}

    def _make_room(self, name: str, path: Path) -> None:
        if path.is_dir():
            _remove_empty(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise UsageError(f"{name} cannot exist beside a ref that is its folder") from None
        if path.is_dir() or any(other.startswith(name + "/") for other in self.packed()):
            raise UsageError(f"{name} cannot exist beside refs below {name}/")

    def _lock(self, path: Path) -> Path:
        """Take PATH.lock as git does. A lock of another git is waited for, an abandoned one removed."""
        lock = path.with_name(path.name + ".lock")
        while True:
            try:
                os.close(os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
                return lock
            except FileExistsError:
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - lock.stat().st_mtime > _FOREIGN_LOCK_S:
                        lock.unlink(missing_ok=True)
                        continue
                time.sleep(0.02)

    def _delete(self, name: str, path: Path) -> None:
        if name in self.packed():
            packed = self.git / "packed-refs"
            lock = self._lock(packed)
            try:
                kept, skip = [], False
                for line in packed.read_text("utf-8", "surrogateescape").splitlines(keepends=True):
                    skip = line.rstrip("\n").endswith(f" {name}") or (skip and line.startswith("^"))
                    if not skip:
                        kept.append(line)
                lock.write_text("".join(kept), "utf-8", "surrogateescape")
                os.rename(lock, packed)
            finally:
                lock.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        fsync_folder(path.parent)


def _remove_empty(path: Path) -> None:
    for folder, _, _ in os.walk(path, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def require(refs: Refs, name: str, what: str) -> str:
    """Id of a ref that must exist."""
    value = refs.get(name)
    if value is None:
        raise NotFound(what, name.removeprefix(HEADS).removeprefix(TAGS))
    return value
