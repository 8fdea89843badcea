"""A pack as care sees it: every record in the order of the file, nothing trusted, memory flat.

`read.Pack` answers questions about single objects and believes its index. This reader goes over a whole pack with
a window of a few megabytes and says of each record what it holds or why it cannot be read.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rover_store.errors import StoreError
from rover_store.packs import BLOB, KIND_NAME, OFS_DELTA, REF_DELTA, WHOLE_LIMIT, object_hash
from rover_store.packs.codec import codec
from rover_store.packs.deltas import apply
from rover_store.packs.format import SMALL, read_back, read_header, read_or_map
from rover_store.plain_file import open_plain

WINDOW = 4 << 20
#: a blob that is larger than this, deflated or not, is hashed in pieces and never held
LARGE = 32 << 20
_CACHE = 64 << 20
_BIG = 1 << 31
_BROKEN = (zlib.error, ValueError, IndexError, struct.error, StoreError, MemoryError, OverflowError)

Base = Callable[[bytes], tuple[int, bytes]]


class Item(NamedTuple):
    """One record. `data` is None for a blob that was not asked for and for what is too large to hold.

    `digest`: the id that the bytes of a large object have. `error`: why the record cannot be read.
    `stored` and `size`: bytes of the record and of what is deflated in it.
    """

    number: int
    offset: int
    kind: int
    data: bytes | None
    digest: bytes | None = None
    error: str = ""
    stored: int = 0
    size: int = 0


class PackFile:
    """One pack with its index. StoreError where the index cannot be used."""

    def __init__(self, path: str | Path) -> None:
        self._place = whole = str(path)  # a thousand of them: a Path is made where one is asked for
        self.name = os.path.basename(whole).removesuffix(".pack")
        self._idx = read_or_map(whole.removesuffix(".pack") + ".idx")
        if len(self._idx) < 1072 or self._idx[:8] != b"\xfftOc\0\0\0\2":
            raise StoreError(f"{self.index.name}: not a version 2 pack index")
        self.fanout = [0, *struct.unpack(">256I", self._idx[8:1032])]
        self.count = self.fanout[256]
        if self.fanout != sorted(self.fanout):
            raise StoreError(f"{self.index.name}: its table of first bytes is not in order")
        if len(self._idx) < 1032 + self.count * 28 + 40:
            raise StoreError(f"{self.index.name}: the pack index is cut short")
        self._crcs = 1032 + self.count * 20
        self._offsets = self._crcs + self.count * 4
        self._fd = open_plain(whole)
        state = os.fstat(self._fd)
        self.size, self.modified = state.st_size, state.st_mtime
        self.index_size = len(self._idx)
        #: whether `items` met a delta
        self.has_deltas = False
        #: all of a small pack: one reading serves, and a thousand of them hold no descriptor
        self._whole = b""
        if 0 < self.size <= SMALL:
            self._whole = os.pread(self._fd, self.size, 0)
            self._close_pack()

    @property
    def path(self) -> Path:
        """The pack."""
        return Path(self._place)

    @property
    def index(self) -> Path:
        """Its index."""
        return self.path.with_suffix(".idx")

    def close(self) -> None:
        """Let go of both files."""
        self._close_pack()
        if isinstance(self._idx, mmap.mmap):
            self._idx.close()

    def _close_pack(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    # --- the index ---------------------------------------------------------------------------------------
    def block(self, first: int) -> bytes:
        """Ids that begin with a byte, one behind the other."""
        return self._idx[1032 + 20 * self.fanout[first] : 1032 + 20 * self.fanout[first + 1]]

    def ids(self) -> bytes:
        """All ids, one behind the other, in order."""
        return self._idx[1032 : self._crcs]

    def name_at(self, number: int) -> bytes:
        """Id of an object by its number."""
        at = 1032 + 20 * number
        return self._idx[at : at + 20]

    def crc(self, number: int) -> int:
        """crc32 of a record as the index has it."""
        at = self._crcs + 4 * number
        return int.from_bytes(self._idx[at : at + 4], "big")

    def offset(self, number: int) -> int:
        """Where a record begins."""
        at = self._offsets + 4 * number
        value = int.from_bytes(self._idx[at : at + 4], "big")
        if value & _BIG:
            at = self._offsets + 4 * self.count + 8 * (value & (_BIG - 1))
            value = int.from_bytes(self._idx[at : at + 8], "big")
        return value

    def find(self, name: bytes) -> int | None:
        """Number of an object, None if it is not here."""
        low, high = 1032 + 20 * self.fanout[name[0]], 1032 + 20 * self.fanout[name[0] + 1]
        at = self._idx.find(name, low, high)
        while at >= 0 and (at - 1032) % 20:
            at = self._idx.find(name, at + 1, high)
        return None if at < 0 else (at - 1032) // 20

    def order(self) -> list[int]:
        """offset << 32 | number of every object, in the order of the file."""
        small = struct.unpack_from(f">{self.count}I", self._idx, self._offsets)
        if self.size < _BIG:
            return sorted((offset << 32) | i for i, offset in enumerate(small))
        return sorted((self.offset(i) << 32) | i for i in range(self.count))

    def sizes(self) -> Iterator[tuple[int, int]]:
        """Number and length of every record, in the order of the file."""
        order = self.order()
        for at, packed in enumerate(order):
            stop = order[at + 1] >> 32 if at + 1 < len(order) else self.size - 20
            yield packed & 0xFFFFFFFF, stop - (packed >> 32)

    # --- the pack ----------------------------------------------------------------------------------------
    def ground(self) -> Iterator[str]:
        """What is wrong with the two files as files: headers, counts, checksums."""
        head, tail = self.read_at(0, 12), self.read_at(max(0, self.size - 20), 20)
        if self.size < 32 or head[:4] != b"PACK":
            yield f"{self.path.name}: not a pack, or cut short"
            return
        version, count = struct.unpack(">II", head[4:])
        if version not in (2, 3):
            yield f"{self.path.name}: pack version {version} is not supported"
        if count != self.count:
            yield f"{self.path.name}: says it holds {count} objects, its index lists {self.count}"
        found = hashlib.sha1(usedforsecurity=False)
        for piece in self.pieces(0, self.size - 20):
            found.update(piece)
        if found.digest() != tail:
            yield f"{self.path.name}: checksum differs, a byte was changed"
        body, own = self._idx[-40:-20], self._idx[-20:]
        if body != tail:
            yield f"{self.index.name}: belongs to another pack"
        fd = open_plain(self.index)
        try:
            if checksum(fd, len(self._idx) - 20) != own:
                yield f"{self.index.name}: checksum differs, a byte was changed"
        finally:
            os.close(fd)
        if any(self.name_at(i) >= self.name_at(i + 1) for i in range(self.count - 1)):
            yield f"{self.index.name}: its ids are not in order"

    def raw(self, wanted: Callable[[int], bool] | None = None) -> Iterator[tuple[int, int, int, bytes | None]]:
        """Number, start, end and bytes of every record in the order of the file; no bytes for a large one.

        Records that are not wanted are left out.
        """
        order = self.order()
        end = self.size - 20
        window, base = b"", 0
        for at, packed in enumerate(order):
            start, number = packed >> 32, packed & 0xFFFFFFFF
            if wanted is not None and not wanted(number):
                continue
            stop = min(order[at + 1] >> 32 if at + 1 < len(order) else end, end)
            if stop - start > LARGE:
                yield number, start, stop, None
                continue
            if start < base or stop > base + len(window):
                base = 0 if self._whole else start
                window = self._whole or self.read_at(start, max(min(WINDOW, self.size - start), stop - start))
            yield number, start, stop, window[start - base : stop - base]

    def items(self, base: Base, *, blobs: bool = True) -> Iterator[Item]:
        """Every object in the order of the file. `base` finds the base of a delta that lies elsewhere."""
        deltas = Deltas(self, base)
        for number, start, stop, record in self.raw():
            kind = 0
            try:
                if start < 12:
                    raise StoreError("its place is outside the pack")
                if blobs and record is not None and codec().crc32(record) != self.crc(number):
                    raise StoreError("its checksum in the pack index differs")
                kind, size, at = read_header(self.read_at(start, 32) if record is None else record, 0)
                if kind in (OFS_DELTA, REF_DELTA):
                    self.has_deltas = True
                    kind, data = deltas.read(start)
                    content = data if blobs or kind != BLOB else None
                    yield Item(number, start, kind, content, None, "", stop - start, size)
                elif kind not in KIND_NAME:
                    raise StoreError(f"type {kind} is none of git's")
                elif kind == BLOB and (not blobs or record is None or size > LARGE):
                    digest = self._hash(kind, size, start + at, stop) if blobs else None
                    yield Item(number, start, kind, None, digest, "", stop - start, size)
                else:
                    body = record[at:] if record is not None else self.read_at(start + at, stop - start - at)
                    yield Item(number, start, kind, inflate(body, size), None, "", stop - start, size)
            except (codec().error, *_BROKEN) as error:
                yield Item(number, start, kind, None, error=getattr(error, "message", "") or str(error) or "unreadable")

    def read_at(self, offset: int, size: int) -> bytes:
        """Bytes at a place, fewer at the end."""
        return self._whole[offset : offset + size] if self._whole else os.pread(self._fd, size, offset)

    def pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """Bytes of the file between two places, a few megabytes at a time."""
        while start < stop and (piece := self.read_at(start, min(WINDOW, stop - start))):
            yield piece
            start += len(piece)

    def _hash(self, kind: int, size: int, start: int, stop: int) -> bytes:
        """Id of a large object, inflated piece by piece."""
        found, whole, total = object_hash(kind, size), zlib.decompressobj(), 0
        for piece in self.pieces(start, stop):
            while piece and not whole.eof and total <= size:
                out = whole.decompress(piece, WINDOW)
                found.update(out)
                total += len(out)
                piece = whole.unconsumed_tail
        if total != size or not whole.eof:
            raise StoreError("wrong size")
        return found.digest()


class Deltas:
    """Follows deltas within a pack, with a bounded memory of what was built last."""

    def __init__(self, pack: PackFile, outside: Base) -> None:
        self._pack = pack
        self._outside = outside
        self._kept: OrderedDict[int, tuple[int, bytes]] = OrderedDict()
        self._held = 0

    def read(self, offset: int) -> tuple[int, bytes]:
        """Kind and bytes of the object at an offset."""
        asked = offset
        chain: list[bytes] = []
        seen: set[int] = set()
        while offset not in self._kept:
            if offset in seen or not 12 <= offset < self._pack.size - 20:
                raise StoreError("its delta has no base")
            seen.add(offset)
            here = offset
            kind, data, base = self._record(here)
            if kind in KIND_NAME:
                self._keep(here, kind, data)
                break
            chain.append(data)
            if kind == REF_DELTA:
                number = self._pack.find(base)
                if number is None:
                    result = self._outside(base)
                    return self._apply(result, chain)
                offset = self._pack.offset(number)
            elif kind == OFS_DELTA:
                offset = here - int.from_bytes(base, "big")
            else:
                raise StoreError(f"type {kind} is none of git's")
        self._kept.move_to_end(offset)
        found = self._apply(self._kept[offset], chain)
        if chain:
            self._keep(asked, *found)
        return found

    def _apply(self, found: tuple[int, bytes], chain: list[bytes]) -> tuple[int, bytes]:
        kind, data = found
        try:
            for delta in reversed(chain):
                data = apply(data, delta)
        except IndexError:
            raise StoreError("its delta is cut short") from None
        return kind, data

    def _record(self, offset: int) -> tuple[int, bytes, bytes]:
        head = self._pack.read_at(offset, 64)
        kind, size, at = read_header(head, 0)
        base = b""
        if kind == OFS_DELTA:
            back, at = read_back(head, at)
            base = back.to_bytes(8, "big")
        elif kind == REF_DELTA:
            base, at = head[at : at + 20], at + 20
        if size > LARGE * 8:
            raise StoreError("a delta too large to hold")
        room = size + (size >> 9) + 1024
        limit = self._pack.size - 20 - offset - at
        whole = zlib.decompressobj()
        data = whole.decompress(self._pack.read_at(offset + at, min(room, limit)), size + 1)
        if len(data) != size:
            raise StoreError("wrong size")
        return kind, data, base

    def _keep(self, offset: int, kind: int, data: bytes) -> None:
        self._kept[offset] = (kind, data)
        self._held += len(data)
        while self._held > _CACHE and len(self._kept) > 1:
            _, (_, gone) = self._kept.popitem(last=False)
            self._held -= len(gone)


def inflate(data: bytes, size: int) -> bytes:
    """Bytes of a record's body, which must be of this size. zlib's checksum is checked."""
    if size > WHOLE_LIMIT:
        raise StoreError("too large to hold")
    whole = codec().inflater()
    out = whole.decompress(data, size + 1)
    if len(out) != size or not whole.eof:
        raise StoreError(f"wrong size: says {size}")
    return out


def checksum(fd: int, size: int) -> bytes:
    """sha1 of the first bytes of a file."""
    found = hashlib.sha1(usedforsecurity=False)
    at = 0
    while at < size and (piece := os.pread(fd, min(WINDOW, size - at), at)):
        found.update(piece)
        at += len(piece)
    return found.digest()


def object_digest(kind: int, data: bytes) -> bytes:
    """The git id of an object, as bytes."""
    found = object_hash(kind, len(data))
    found.update(data)
    return found.digest()
