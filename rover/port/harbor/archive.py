"""Tar and zip archives of tasks, read within bounds: no path leaves, no link leaves, no bomb unfolds.

What a header says of sizes is not believed: a compressed archive is first unfolded into a scratch file with a limit,
and no single read is larger than a file may be.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import IO

from rover.port.harbor.tree import BOUNDS, Bounds, Item, check_path, ignored, inner_links, resolved
from rover_store.errors import PackageError
from rover_store.files.safe_names import shown

_CHUNK, _PIECE = 1 << 20, 1 << 16
#: what the readers raise for bytes that no writer gives; a method of zip that is not known is NotImplementedError
_DAMAGED = (
    EOFError, OSError, OverflowError, NotImplementedError, ValueError, struct.error, zlib.error, lzma.LZMAError,
    tarfile.TarError, zipfile.BadZipFile,
)  # fmt: skip


def is_archive(path: Path) -> bool:
    """Whether a file begins as an archive that is read here."""
    return bool(_kind(path))


def _kind(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(512)
    magic = ((b"PK\x03\x04", "zip"), (b"PK\x05\x06", "zip"), (b"\x1f\x8b", "gz"), (b"BZh", "bz2"), (b"\xfd7zXZ", "xz"))
    for begins, kind in magic:
        if head.startswith(begins):
            return kind
    return "tar" if head[257:262] == b"ustar" else ""


def read_archive(path: Path, bounds: Bounds = BOUNDS) -> dict[str, Item]:
    """All files of an archive, sorted by path. PackageError for a damaged or hostile one."""
    kind = _kind(path)
    try:
        if kind == "zip":
            return _zip(path, bounds)
        if kind:
            return _tar(path, kind, bounds)
    except _DAMAGED as error:
        raise PackageError(path.name, "", f"is a damaged archive ({' '.join(str(error).split())[:100]})") from None
    raise PackageError(path.name, "", "is neither a folder nor a tar or zip archive")


def read_stream(chunks: Iterable[bytes], name: str, bounds: Bounds = BOUNDS) -> tuple[dict[str, Item], int]:
    """The plain files of a tar that comes in chunks, and how many of its members are none, or links out of it."""
    found = _Contents(bounds, name)
    left = 0
    with tempfile.TemporaryFile(prefix="rover-import-") as scratch:
        for chunk in chunks:
            if scratch.tell() + len(chunk) > bounds.task_bytes:
                raise PackageError(name, "", f"holds more than {bounds.task_bytes >> 20} MB")
            scratch.write(chunk)
        scratch.seek(0)
        with tarfile.open(fileobj=scratch, mode="r:", errorlevel=2) as archive:
            for member in archive:
                if member.issym():
                    if inner := found.path(member.name):
                        found.links[inner] = member.linkname
                elif member.isreg() and not member.issparse():
                    _member(archive, member, found)
                elif not member.isdir():
                    left += 1
    links = inner_links(found.files, found.links)
    left += len(found.links) - len(links)
    files = resolved(found.files, links, bounds)
    return {path: replace(item, link="") for path, item in sorted(files.items())}, left


class _Contents:
    """What was read so far, with its sum."""

    def __init__(self, bounds: Bounds, name: str) -> None:
        self.bounds = bounds
        self.name = name
        self.files: dict[str, Item] = {}
        self.links: dict[str, str] = {}
        self.total = 0

    def path(self, raw: str) -> str:
        """The path of a member; empty where it is left out."""
        if raw.startswith("/") or ".." in raw.split("/"):
            raise PackageError(self.name, shown(raw), "leaves the folder it is unpacked in")
        path = "/".join(part for part in raw.split("/") if part not in ("", "."))
        if not path or any(ignored(part) for part in path.split("/")):
            return ""
        try:
            check_path(path, self.bounds)
        except PackageError as error:
            raise PackageError(self.name, error.file, error.reason) from None
        if path in self.files or path in self.links:
            raise PackageError(self.name, shown(path), "is there twice")
        if len(self.files) + len(self.links) >= self.bounds.archive_files:
            raise PackageError(self.name, "", f"holds more than {self.bounds.archive_files} files")
        return path

    def add(self, path: str, file: IO[bytes], executable: bool) -> None:
        data = _read(file, self.bounds.file_bytes)
        self.total += len(data)
        if len(data) > self.bounds.file_bytes:
            raise PackageError(self.name, shown(path), f"is larger than {self.bounds.file_bytes >> 20} MB")
        if self.total > self.bounds.archive_bytes:
            raise PackageError(self.name, "", f"unfolds to more than {self.bounds.archive_bytes >> 20} MB")
        self.files[path] = Item(data, executable)

    def done(self) -> dict[str, Item]:
        """The files of all tasks; what each may hold is looked at when it is read."""
        whole = replace(self.bounds, task_files=self.bounds.archive_files, task_bytes=self.bounds.archive_bytes)
        try:
            return resolved(self.files, self.links, whole)
        except PackageError as error:
            raise PackageError(self.name, error.file, error.reason) from None


def _read(file: IO[bytes], most: int) -> bytes:
    """All of a file, and a little more than it may hold of one that holds more. Memory grows with what is there."""
    parts, total = [], 0
    while total <= most and (data := file.read(_PIECE)):
        parts.append(data)
        total += len(data)
    return b"".join(parts)


def _zip(path: Path, bounds: Bounds) -> dict[str, Item]:
    found = _Contents(bounds, path.name)
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        if len(infos) > bounds.archive_files:
            raise PackageError(path.name, "", f"holds more than {bounds.archive_files} files")
        for info in infos:
            inner = found.path(info.filename)
            mode = info.external_attr >> 16
            if not inner or info.is_dir():
                continue
            if info.flag_bits & 1:
                raise PackageError(path.name, shown(inner), "is encrypted")
            with archive.open(info) as file:
                if stat.S_ISLNK(mode):
                    found.links[inner] = _text(file.read(4096), path.name, inner)
                elif stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                    raise PackageError(path.name, shown(inner), "is no plain file")
                else:
                    found.add(inner, file, bool(mode & 0o111))
    return found.done()


def _text(data: bytes, name: str, inner: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise PackageError(name, shown(inner), "is a link whose text is not UTF-8") from None


class _Bounded(io.FileIO):
    """A file of which no more than so many bytes are read at once: headers too can claim any size."""

    most = BOUNDS.file_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > self.most + _CHUNK:
            raise tarfile.ReadError("a header claims more than any file may hold")
        return super().read(-1 if size is None else size) or b""


def _tar(path: Path, kind: str, bounds: Bounds) -> dict[str, Item]:
    found = _Contents(bounds, path.name)
    with tempfile.TemporaryDirectory(prefix="rover-import-") as scratch:
        plain = path if kind == "tar" else _unfolded(path, kind, Path(scratch) / "tar", bounds)
        with _Bounded(plain) as raw, tarfile.open(fileobj=raw, mode="r:", errorlevel=2) as archive:
            for member in archive:
                _member(archive, member, found)
    return found.done()


def _unfolded(path: Path, kind: str, target: Path, bounds: Bounds) -> Path:
    openers: dict[str, Callable[[Path], IO[bytes]]] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}  # type: ignore[dict-item]
    most = bounds.archive_bytes + bounds.archive_files * 1024
    with openers[kind](path) as opened, target.open("wb") as out:
        while data := opened.read(_CHUNK):
            if out.tell() + len(data) > most:
                raise PackageError(path.name, "", f"unfolds to more than {bounds.archive_bytes >> 20} MB")
            out.write(data)
    return target


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo, found: _Contents) -> None:
    inner = found.path(member.name)
    if not inner or member.isdir():
        return
    if member.issym():
        found.links[inner] = member.linkname
        return
    if not member.isreg() or member.issparse():
        raise PackageError(found.name, shown(inner), "is no plain file")
    if member.size > found.bounds.file_bytes:
        raise PackageError(found.name, shown(inner), f"is larger than {found.bounds.file_bytes >> 20} MB")
    file = archive.extractfile(member)
    assert file is not None
    found.add(inner, file, bool(member.mode & 0o111))
