"""Archives by their members, and the bounded reading of zip files that the office formats share. Runs inside."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zipfile
import zlib
from typing import Any

MEMBERS = 20_000
#: bytes that all members of one file unpack to, read and counted, whatever its directory says
UNPACKED = 256 << 20
_PIECE = 1 << 20


class Unreadable(Exception):
    """A file cannot be read, in words."""


class Parts:
    """A zip file's members, unpacked within one bound."""

    def __init__(self, name: str) -> None:
        try:
            self.zip = zipfile.ZipFile(name)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            raise Unreadable("not a zip file") from None
        self.names = [i.filename for i in self.zip.infolist()]
        if len(self.names) > MEMBERS:
            raise Unreadable(f"more than {MEMBERS} members")
        self._left = UNPACKED

    def read(self, name: str, most: int = 64 << 20) -> bytes:
        """One member. Unreadable where it is damaged, locked or too large."""
        return b"".join(self._pieces(name, most))

    def _pieces(self, name: str | zipfile.ZipInfo, most: int) -> Any:
        size = 0
        try:
            with self.zip.open(name) as file:
                while piece := file.read(_PIECE):
                    size += len(piece)
                    self._left -= len(piece)
                    if size > most or self._left < 0:
                        raise Unreadable("unpacks to too many bytes")
                    yield piece
        except Unreadable:
            raise
        except KeyError:
            raise Unreadable(f"has no {name}") from None
        except Exception as error:  # zlib, struct, a password, an unknown method: zipfile raises anything
            raise Unreadable(f"a member is damaged or locked ({type(error).__name__})") from None

    def digests(self) -> list[tuple[str, int, str]]:
        """(name, size, digest) of every member."""
        out = []
        for item in self.zip.infolist():
            digest, size = hashlib.sha256(), 0
            for piece in self._pieces(item, UNPACKED):
                digest.update(piece)
                size += len(piece)
            out.append((item.filename, size, digest.hexdigest()))
        return out

    def parts(self) -> dict[str, str]:
        return {name: digest for name, _, digest in self.digests()}


def read(payload: dict[str, Any]) -> dict[str, Any]:
    """{"members": [[name, size, digest], ...]} of a zip, a tar (packed or not) or a gzip file."""
    name = payload["file"]
    if zipfile.is_zipfile(name):
        return {"members": Parts(name).digests()}
    try:
        if tarfile.is_tarfile(name):
            return {"members": _tar(name)}
    except (OSError, EOFError, ValueError):
        pass  # packed, but no tar
    with open(name, "rb") as file:
        if file.read(2) == b"\x1f\x8b":
            file.seek(0)
            return {"members": [_gzip(file.read())]}
    raise Unreadable("neither zip, tar nor gzip")


def _tar(name: str) -> list[tuple[str, int, str]]:
    out: list[tuple[str, int, str]] = []
    left = UNPACKED
    try:
        with tarfile.open(name, "r:*") as archive:
            for member in archive:
                if len(out) >= MEMBERS:
                    raise Unreadable(f"more than {MEMBERS} members")
                digest, size = hashlib.sha256(f"{member.type!r}{member.mode}{member.linkname}".encode()), 0
                file = archive.extractfile(member) if member.isfile() else None
                while file is not None and (piece := file.read(_PIECE)):
                    size += len(piece)
                    left -= len(piece)
                    if left < 0:
                        raise Unreadable("unpacks to too many bytes")
                    digest.update(piece)
                out.append((member.name, size, digest.hexdigest()))
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error) as error:
        raise Unreadable(f"a damaged tar file ({type(error).__name__})") from None
    return out


def _gzip(data: bytes) -> tuple[str, int, str]:
    digest, size = hashlib.sha256(), 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while piece := file.read(_PIECE):
                size += len(piece)
                if size > UNPACKED:
                    raise Unreadable("unpacks to too many bytes")
                digest.update(piece)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise Unreadable(f"a damaged gzip file ({type(error).__name__})") from None
    return "(content)", size, digest.hexdigest()
