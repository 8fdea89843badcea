"""Reading a folder that anyone may have made: nothing is followed, nothing huge is opened, no name is trusted.

All names and sizes are checked by lstat before any file is read. Refusals are PackageErrors with one line.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from pathlib import Path
from typing import NamedTuple

from rover_store.errors import PackageError, UsageError

#: left behind by editors and interpreters, never part of a package
IGNORED = frozenset({"__pycache__", ".DS_Store", "Thumbs.db"})


class FolderLimits(NamedTuple):
    """What a package folder may hold."""

    file_bytes: int = 256 << 20
    total_bytes: int = 1 << 30
    files: int = 20_000
    depth: int = 32
    path_bytes: int = 1024


class SourceEntry(NamedTuple):
    """A file of the folder as lstat saw it."""

    root: Path
    path: str
    size: int
    stamp: tuple[int, int, int]  # inode, mtime, ctime

    def read(self) -> bytes:
        """Its bytes. PackageError if it is no longer the file that was checked, or changes meanwhile."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            fd = os.open(self.root / self.path, flags)
        except OSError as error:
            raise PackageError(self.path, "", f"cannot be read ({error.strerror})") from None
        with os.fdopen(fd, "rb") as file:
            if _stamp(os.fstat(fd)) != self.stamp:
                raise PackageError(self.path, "", "changed while it was read; try again")
            data = file.read(self.size + 1)
            if len(data) != self.size or _stamp(os.fstat(fd)) != self.stamp:
                raise PackageError(self.path, "", "changed while it was read; try again")
        return data


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


LIMITS = FolderLimits()


def read_folder(folder: Path, limits: FolderLimits = LIMITS) -> Intake:
    """Files of a folder, sorted by path. PackageError names the first one that is refused."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    scan = _Scan(folder, limits)
    scan.walk("", 1)
    return Intake(tuple(sorted(scan.files, key=lambda e: e.path)), tuple(sorted(scan.skipped)))


class _Scan:
    def __init__(self, root: Path, limits: FolderLimits) -> None:
        self.root = root
        self.limits = limits
        self.files: list[SourceEntry] = []
        self.skipped: list[str] = []
        self._total = 0

    def walk(self, prefix: str, depth: int) -> None:
        if depth > self.limits.depth:
            raise PackageError(prefix, "", f"nested deeper than {self.limits.depth} folders")
        try:
            names = sorted(os.listdir(self.root / prefix))
        except OSError as error:
            raise PackageError(prefix or str(self.root), "", f"cannot be listed ({error.strerror})") from None
        seen: dict[str, str] = {}
        for name in names:
            path = prefix + name
            if name in IGNORED:
                self.skipped.append(path)
                continue
            self._check(path, name)
            folded = unicodedata.normalize("NFC", name).casefold()
            if folded in seen:
                raise PackageError(path, "", f"the same name as {seen[folded]!r} where case does not count")
            seen[folded] = name
            self._entry(path, depth)

    def _entry(self, path: str, depth: int) -> None:
        state = os.lstat(self.root / path)
        if stat.S_ISDIR(state.st_mode):
            self.walk(f"{path}/", depth + 1)
            return
        if not stat.S_ISREG(state.st_mode):
            raise PackageError(path, "", f"{_KINDS.get(stat.S_IFMT(state.st_mode), 'special file')}; only plain files")
        if state.st_size > self.limits.file_bytes:
            raise PackageError(path, "", f"{_size(state.st_size)}; a file may have {_size(self.limits.file_bytes)}")
        self._total += state.st_size
        if self._total > self.limits.total_bytes:
            raise PackageError(path, "", f"the folder holds more than {_size(self.limits.total_bytes)}")
        if len(self.files) >= self.limits.files:
            raise PackageError(path, "", f"the folder holds more than {self.limits.files} files")
        self.files.append(SourceEntry(self.root, path, state.st_size, _stamp(state)))

    def _check(self, path: str, name: str) -> None:
        try:
            raw = path.encode()
        except UnicodeEncodeError:
            shown = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            raise PackageError(shown, "", "the name is not UTF-8") from None
        if any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in name):
            raise PackageError(repr(path), "", "the name has a control character or a line break")
        if _git_name(name):
            raise PackageError(path, "", "a git folder cannot be part of a package; remove it")
        if "\\" in name:
            raise PackageError(path, "", "the name has a backslash")
        if len(raw) > self.limits.path_bytes:
            raise PackageError(path[:80] + "...", "", f"the path is longer than {self.limits.path_bytes} bytes")


_KINDS = {
    stat.S_IFLNK: "is a link",
    stat.S_IFIFO: "is a FIFO",
    stat.S_IFSOCK: "is a socket",
    stat.S_IFCHR: "is a device",
    stat.S_IFBLK: "is a device",
}


def _git_name(name: str) -> bool:
    """Names that some file system takes for `.git` (git refuses them too)."""
    plain = "".join(c for c in name if unicodedata.category(c) != "Cf").rstrip(". ").casefold()
    return plain in (".git", "git~1")


def _stamp(state: os.stat_result) -> tuple[int, int, int]:
    return state.st_ino, state.st_mtime_ns, state.st_ctime_ns


def _size(n: int) -> str:
    return f"{n / (1 << 30):.1f} GiB" if n >= 1 << 30 else f"{n >> 20} MiB"
