"""Reading a folder that anyone may have made: nothing is followed, nothing huge is opened, no name is trusted.

All names and sizes are checked by lstat before any file is read. Refusals are PackageErrors with one line.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from rover_store.errors import PackageError, StoreError, UsageError
from rover_store.files.safe_names import folded, refusal, shown
from rover_store.packs import BLOB, object_hash

if TYPE_CHECKING:
    from rover_store.write import Transaction

#: left behind by editors and interpreters, never part of a package
IGNORED = frozenset({"__pycache__", ".DS_Store", "Thumbs.db"})
#: at the top of a folder that was checked out: what it began as (`base`); never part of a package
BASE_FILE = ".rover-base"
_CHUNK = 1 << 20


class FolderLimits(NamedTuple):
    """What a package folder may hold."""

    file_bytes: int = 256 << 20
    total_bytes: int = 1 << 30
    files: int = 200_000
    depth: int = 32
    path_bytes: int = 1024


LIMITS = FolderLimits()
#: for who says that large files are meant; the memory of a commit does not grow with them
LARGE = FolderLimits(file_bytes=1 << 40, total_bytes=1 << 42)


class SourceEntry(NamedTuple):
    """A file of the folder as lstat saw it."""

    root: str
    path: str
    size: int
    stamp: tuple[int, int, int]  # inode, mtime, ctime

    def read(self) -> bytes:
        """Its bytes. PackageError if it is no longer the file that was checked, or changes meanwhile."""
        with self._opened() as file:
            data = file.read(self.size + 1)
            if len(data) != self.size:
                raise self._changed()
        return data

    def blob_id(self) -> str:
        """The id that its bytes have as a blob, whatever their size. PackageError as for `read`."""
        digest = object_hash(BLOB, self.size)
        with self._opened() as file:
            left = self.size
            while left and (chunk := file.read(min(left, _CHUNK))):
                left -= len(chunk)
                digest.update(chunk)
        return digest.hexdigest()

    def store(self, tx: Transaction) -> str:
        """Write it as a blob, whatever its size, and return its id. PackageError as for `read`."""
        with self._opened() as file:
            try:
                return tx.blob_file(file)
            except StoreError:
                if os.fstat(file.fileno()).st_size != self.size or _stamp(os.fstat(file.fileno())) != self.stamp:
                    raise self._changed() from None
                raise

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            fd = os.open(f"{self.root}/{self.path}", flags)
        except OSError as error:
            raise PackageError(self.path, "", f"cannot be read ({error.strerror})") from None
        with os.fdopen(fd, "rb") as file:
            if _stamp(os.fstat(fd)) != self.stamp:
                raise self._changed()
            try:
                yield file
            except OSError as error:
                raise PackageError(self.path, "", f"cannot be read ({error.strerror})") from None
            if _stamp(os.fstat(fd)) != self.stamp:
                raise self._changed()

    def _changed(self) -> PackageError:
        return PackageError(self.path, "", "changed while it was read; try again")


class Intake(NamedTuple):
    """A folder that passed every check on names and sizes."""

    files: tuple[SourceEntry, ...]
    skipped: tuple[str, ...]

    def has(self, path: str) -> bool:
        return any(entry.path == path for entry in self.files)

    def data(self, path: str) -> bytes:
        """Bytes of one file. PackageError if it is missing."""
        for entry in self.files:
            if entry.path == path:
                return entry.read()
        raise PackageError(path, "", "missing")


def read_folder(folder: Path, limits: FolderLimits = LIMITS) -> Intake:
    """Files of a folder, sorted by path. PackageError names the first one that is refused."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    scan = _Scan(folder, limits)
    scan.walk("", 1)
    return Intake(tuple(sorted(scan.files, key=lambda e: e.path)), tuple(sorted(scan.skipped)))


class _Scan:
    def __init__(self, root: Path, limits: FolderLimits) -> None:
        self.root = str(root)
        self.limits = limits
        self.files: list[SourceEntry] = []
        self.skipped: list[str] = []
        self._total = 0

    def walk(self, prefix: str, depth: int) -> None:
        if depth > self.limits.depth:
            raise PackageError(shown(prefix), "", f"nested deeper than {self.limits.depth} folders")
        try:
            with os.scandir(f"{self.root}/{prefix}") as found:
                entries = sorted(found, key=lambda e: e.name)
        except OSError as error:
            raise PackageError(shown(prefix) or self.root, "", f"cannot be listed ({error.strerror})") from None
        seen: dict[str, str] = {}
        for entry in entries:
            path = prefix + entry.name
            if entry.name in IGNORED:
                self.skipped.append(path)
                continue
            if path == BASE_FILE:
                continue
            self._check(path, entry.name)
            key = folded(entry.name)
            if key in seen:
                reason = f"the same name as {seen[key]!r} where case does not count"
                raise PackageError(path, "", reason)
            seen[key] = entry.name
            self._entry(path, entry, depth)

    def _entry(self, path: str, entry: os.DirEntry[str], depth: int) -> None:
        try:
            state = entry.stat(follow_symlinks=False)
        except OSError as error:
            raise PackageError(path, "", f"cannot be read ({error.strerror})") from None
        if stat.S_ISDIR(state.st_mode):
            self.walk(f"{path}/", depth + 1)
            return
        if not stat.S_ISREG(state.st_mode):
            raise PackageError(path, "", f"{_KINDS.get(stat.S_IFMT(state.st_mode), 'special file')}; only plain files")
        limits = self.limits
        if state.st_size > limits.file_bytes:
            reason = f"{_size(state.st_size)}; a file may have {_size(limits.file_bytes)}"
            raise PackageError(path, "", reason, hint=_MEANT if limits == LIMITS else "")
        self._total += state.st_size
        if self._total > limits.total_bytes:
            reason = f"the folder holds more than {_size(limits.total_bytes)}"
            raise PackageError(path, "", reason, hint=_MEANT if limits == LIMITS else "")
        if len(self.files) >= limits.files:
            raise PackageError(path, "", f"the folder holds more than {limits.files} files")
        self.files.append(SourceEntry(self.root, path, state.st_size, _stamp(state)))

    def _check(self, path: str, name: str) -> None:
        reason = refusal(name)
        if not reason and len(path.encode()) > self.limits.path_bytes:
            reason = f"the path is longer than {self.limits.path_bytes} bytes"
        if reason:
            raise PackageError(shown(path), "", reason)


_MEANT = "`rover commit --large` takes it, a piece at a time"
_KINDS = {
    stat.S_IFLNK: "is a link",
    stat.S_IFIFO: "is a FIFO",
    stat.S_IFSOCK: "is a socket",
    stat.S_IFCHR: "is a device",
    stat.S_IFBLK: "is a device",
}


def _stamp(state: os.stat_result) -> tuple[int, int, int]:
    return state.st_ino, state.st_mtime_ns, state.st_ctime_ns


def _size(n: int) -> str:
    return f"{n / (1 << 30):.1f} GiB" if n >= 1 << 30 else f"{n >> 20} MiB"
