"""An index for a pack that comes without one, as in a bundle: each record is inflated in pieces and hashed.

Nothing is trusted: a record may not inflate to more than it says, its pack must end where its checksum begins, and
memory does not grow with what is inside. Packs with deltas are refused by name: rover writes none.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from rover_store.errors import StoreError
from rover_store.packs.codec import codec
from rover_store.packs.format import CHUNK, KIND_NAME, object_hash, read_header
from rover_store.packs.write import Entries

#: an object that says to be larger than this is refused
LARGEST = 1 << 40
_HEADER, _TRAILER = 12, 20
#: bytes read for a record at first: most are small
_FIRST = 1 << 12


def index_pack(pack: Path) -> int:
    """Write the index beside a pack. Returns how many objects it holds; StoreError where anything is wrong with it."""
    fd = os.open(pack, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        head = os.pread(fd, _HEADER, 0)
        if size < _HEADER + _TRAILER or head[:4] != b"PACK":
            raise StoreError("it holds no pack, or is cut short")
        version, count = int.from_bytes(head[4:8], "big"), int.from_bytes(head[8:], "big")
        if version != 2:
            raise StoreError(f"its pack is of version {version}")
        checksum = _checksum(fd, size - _TRAILER)
        if checksum != os.pread(fd, _TRAILER, size - _TRAILER):
            raise StoreError("its checksum is wrong: it is damaged or cut short")
        entries, at, end = Entries(), _HEADER, size - _TRAILER
        for _ in range(count):
            name, after, crc = _record(fd, at, end)
            if name in entries:
                raise StoreError(f"object {name.hex()} lies in it twice")
            entries.add(name, at, crc)
            at = after
        if at != end:
            raise StoreError("bytes lie behind its last object")
    finally:
        os.close(fd)
    _write(pack.with_suffix(".idx"), entries.index(checksum))
    return count


def _record(fd: int, at: int, end: int) -> tuple[bytes, int, int]:
    """Id of the object at an offset, where the next one begins, and the crc32 of the record."""
    data = os.pread(fd, min(_FIRST, end - at), at)
    try:
        kind, size, used = read_header(data, 0)
    except IndexError:
        raise StoreError("its pack is cut short") from None
    if kind not in KIND_NAME:
        hint = "git clone --mirror FILE evidence.git, then pull evidence.git"
        raise StoreError("its pack holds deltas, which rover writes none of", hint=hint)
    if size > LARGEST:
        raise StoreError(f"an object in it says to have {size} bytes")
    digest, inflater, left, fed = object_hash(kind, size), zlib.decompressobj(), size, used
    crc, piece, place = codec().crc32(data[:used]), data[used:], at + len(data)
    try:
        while not inflater.eof:
            out = inflater.decompress(piece, CHUNK)
            # at the end of a stream what is left may stand in both
            rest = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            used = len(piece) - len(rest)
            fed, crc = fed + used, codec().crc32(piece[:used], crc)
            left -= len(out)
            if left < 0:
                raise StoreError("an object in it is larger than it says")
            digest.update(out)
            piece = inflater.unconsumed_tail
            if not piece and not inflater.eof:
                piece = os.pread(fd, min(CHUNK, end - place), place)
                place += len(piece)
                if not piece and not out:
                    raise StoreError("its pack is cut short")
    except zlib.error:
        raise StoreError("an object in it cannot be inflated") from None
    if left:
        raise StoreError("an object in it is smaller than it says")
    return digest.digest(), at + fed, crc


def _checksum(fd: int, size: int) -> bytes:
    digest, at = hashlib.sha1(usedforsecurity=False), 0
    while at < size and (piece := os.pread(fd, min(CHUNK, size - at), at)):
        digest.update(piece)
        at += len(piece)
    return digest.digest()


def _write(path: Path, pieces: Iterator[bytes]) -> None:
    digest = hashlib.sha1(usedforsecurity=False)
    with open(path, "wb") as file:
        for piece in pieces:
            digest.update(piece)
            file.write(piece)
        file.write(digest.digest())
