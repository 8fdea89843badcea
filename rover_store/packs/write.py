"""Writing one pack and its index, as a stream: 45 bytes of memory an object, whatever the objects' size.

No deltas: an object is one inflate away, and packs are rolled together by copying records.
"""

from __future__ import annotations

import hashlib
import os
import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from pathlib import Path

from rover_store.errors import StoreError
from rover_store.packs.codec import codec
from rover_store.packs.format import (
    CHUNK,
    KIND_NAME,
    TMP_PREFIX,
    WHOLE_LIMIT,
    TooLarge,
    deflated_bound,
    fsync_folder,
    object_hash,
    object_id,
    read_header,
    record_header,
)
from rover_store.packs.read import Record

_MSB = 1 << 31
_FLUSH = 1 << 20
#: small objects kept for reading back: a tree that was just written is often read next
_RECENT, _RECENT_BYTES = 512, 1 << 13


class Entries:
    """Ids of a pack under construction, with offset and crc32. A table of our own: a dict takes five times as much."""

    __slots__ = ("_crcs", "_ids", "_mask", "_offsets", "_slots")

    def __init__(self) -> None:
        self._ids = bytearray()
        self._offsets, self._crcs = array("Q"), array("I")
        self._slots = array("I", bytes(4 << 10))  # number of an entry plus one, 0: free
        self._mask = (1 << 10) - 1

    def __len__(self) -> int:
        return len(self._crcs)

    def __contains__(self, name: bytes) -> bool:
        return self._number(name) > 0

    def __iter__(self) -> Iterator[bytes]:
        return (bytes(self._ids[at : at + 20]) for at in range(0, len(self._ids), 20))

    def __getitem__(self, name: bytes) -> tuple[int, int]:
        """Offset and crc32 of an object that is here."""
        n = self._number(name)
        if not n:
            raise KeyError(name.hex())
        return self._offsets[n - 1], self._crcs[n - 1]

    def find(self, name: bytes) -> int | None:
        """Offset of an object, None if it is not here."""
        n = self._number(name)
        return self._offsets[n - 1] if n else None

    def add(self, name: bytes, offset: int, crc: int) -> None:
        """Add an id that is not here."""
        self._ids += name
        self._offsets.append(offset)
        self._crcs.append(crc)
        self._place(name, len(self._crcs))
        if len(self._crcs) * 5 > self._mask * 3:
            self._mask = 2 * self._mask + 1
            self._slots = array("I", bytes(4 * (self._mask + 1)))
            for n, one in enumerate(self, 1):
                self._place(one, n)

    def index(self, checksum: bytes, large_from: int = _MSB) -> Iterator[bytes]:
        """The version 2 index, in pieces. Offsets from `large_from` on are written in eight bytes."""
        order, fanout = self._order()
        yield b"\xfftOc" + struct.pack(">I256I", 2, *fanout)
        for at in range(0, len(order), 1 << 12):
            yield b"".join(self._ids[20 * i : 20 * i + 20] for i in order[at : at + (1 << 12)])
        yield _big_endian(array("I", map(self._crcs.__getitem__, order)))
        offsets, large = array("I"), array("Q")
        for offset in map(self._offsets.__getitem__, order):
            offsets.append(offset if offset < large_from else _MSB | len(large))
            if offset >= large_from:
                large.append(offset)
        yield _big_endian(offsets) + _big_endian(large) + checksum

    def _number(self, name: bytes) -> int:
        """Number of an entry, counted from 1; 0 if it is not here."""
        slots, ids, mask = self._slots, self._ids, self._mask
        i = hash(name) & mask
        while n := slots[i]:
            if ids[20 * n - 20 : 20 * n] == name:
                return n
            i = (i + 1) & mask
        return 0

    def _place(self, name: bytes, n: int) -> None:
        i = hash(name) & self._mask
        while self._slots[i]:
            i = (i + 1) & self._mask
        self._slots[i] = n

    def _order(self) -> tuple[array[int], list[int]]:
        """Entries sorted by id, and how many begin with each byte or a smaller one. By first byte, to save memory."""
        order, fanout = array("I"), list[int]()
        if len(self) < 1 << 12:
            names = sorted((name, i) for i, name in enumerate(self))
            counts = [0] * 256
            for first in self._ids[::20]:
                counts[first] += 1
            return array("I", [i for _, i in names]), list(accumulate(counts))
        buckets = [array("I") for _ in range(256)]
        for i, first in enumerate(self._ids[::20]):
            buckets[first].append(i)
        for bucket in buckets:
            order.extend(i for _, i in sorted((self._ids[20 * i : 20 * i + 20], i) for i in bucket))
            fanout.append(len(order))
        return order, fanout


def index_bytes(entries: Mapping[bytes, tuple[int, int]], checksum: bytes, large_from: int = _MSB) -> bytes:
    """A version 2 pack index: id -> offset and crc32."""
    table = Entries()
    for name, (offset, crc) in entries.items():
        table.add(name, offset, crc)
    body = b"".join(table.index(checksum, large_from))
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


class PackWriter:
    """Streams objects into one temporary pack; `finish` makes it durable and visible, `abort` leaves nothing.

    The folder is objects/pack of a repository. Nothing is created before the first object.
    What is `known` there already is not written again.
    """

    def __init__(self, folder: Path, known: Callable[[str], bool] = lambda _: False) -> None:
        self._folder = folder
        self._known = known
        self._fd = -1
        self._tmp: Path | None = None
        self._buffer = bytearray()
        self._flushed = 0
        self.recent: dict[str, tuple[int, bytes]] = {}  # small objects that were written last
        self.entries = Entries()

    def __contains__(self, object_hex: str) -> bool:
        try:
            return self.entries.find(bytes.fromhex(object_hex)) is not None
        except ValueError:  # a name, not an id
            return False

    def add(self, kind: int, data: bytes, known: str = "") -> str:
        """Write one object, once, and return its id, which a caller that has it may give."""
        hex_name = known or object_id(kind, data)
        name = bytes.fromhex(hex_name)
        if name not in self.entries and not self._known(hex_name):
            self.add_record(name, record_header(kind, len(data)) + codec().compress(data))
            if len(data) <= _RECENT_BYTES:
                if len(self.recent) >= _RECENT:
                    self.recent.clear()
                self.recent[hex_name] = (kind, data)
        return hex_name

    def add_record(self, name: bytes, record: bytes) -> None:
        """Write one finished record (no delta) of an object that is not here yet."""
        self.entries.add(name, self._end(), codec().crc32(record))
        self._buffer += record
        if len(self._buffer) >= _FLUSH:
            self._flush()

    def add_run(self, start: int, data: bytes, records: Iterable[Record]) -> None:
        """Write finished records that lie one after the other, none of them here yet; `data` began at `start`."""
        shift = self._end() - start
        for record in records:
            self.entries.add(record.name, record.start + shift, record.crc)
        self._buffer += data
        if len(self._buffer) >= _FLUSH:
            self._flush()

    def add_stream(self, kind: int, size: int, chunks: Iterable[bytes], name: str) -> str:
        """Write one object of any size. StoreError, and nothing is kept, where the chunks do not have the id."""
        deflater = codec().deflater()
        digest = object_hash(kind, size)

        def record() -> Iterator[bytes]:
            yield record_header(kind, size)
            for chunk in chunks:
                digest.update(chunk)
                yield deflater.compress(chunk)
            yield deflater.flush()
            if digest.hexdigest() != name:
                raise StoreError(f"what was to be stored as {name} has another id, or changed meanwhile")

        if name not in self:
            self.copy_record(bytes.fromhex(name), record())
        return name

    def copy_record(self, name: bytes, pieces: Iterable[bytes]) -> None:
        """Write one finished record, given in pieces. If they fail, nothing is kept."""
        start, crc = self._end(), 0
        try:
            for piece in pieces:
                crc = codec().crc32(piece, crc)
                self._buffer += piece
                if len(self._buffer) >= _FLUSH:
                    self._flush()
        except BaseException:
            del self._buffer[max(0, start - self._flushed) :]
            if start < self._flushed:
                os.ftruncate(self._fd, start)
                self._flushed = start
            raise
        self.entries.add(name, start, crc)

    def get(self, object_hex: str) -> tuple[int, bytes]:
        """Read back an object written to this pack."""
        if object_hex in self.recent:
            return self.recent[object_hex]
        offset = self.entries.find(bytes.fromhex(object_hex))
        if offset is None:
            raise StoreError(f"object {object_hex} was not written here")
        kind, size, used = read_header(self._read(offset, 32), 0)
        if size > WHOLE_LIMIT:
            raise TooLarge(f"{KIND_NAME[kind]} {object_hex}", size)
        data = codec().inflater().decompress(self._read(offset + used, deflated_bound(size)), size + 1)
        return kind, data

    def finish(self, announce: Callable[[str], None] | None = None) -> str | None:
        """Make the pack visible: fsync both files, rename the pack, then its index, fsync the folder.

        Returns the pack's name, or None if nothing was written. `announce` is told the name before the first
        rename, so that a recovery can finish or remove what a killed writer left.
        """
        if not len(self.entries):
            self.abort()
            return None
        count = struct.pack(">I", len(self.entries))
        if self._fd < 0:  # all of it is still here
            self._buffer[8:12] = count
            checksum = hashlib.sha1(self._buffer, usedforsecurity=False).digest()
            self._buffer += checksum
            self._flush()
        else:
            self._flush()
            _pwrite(self._fd, count, 8)
            checksum = self._checksum()
            _pwrite(self._fd, checksum, self._flushed)
        os.fsync(self._fd)
        os.close(self._fd)
        self._fd = -1
        assert self._tmp is not None
        name = f"pack-{checksum.hex()}"
        idx_tmp = self._tmp.with_name(self._tmp.name + ".idx")
        _write_index(idx_tmp, self.entries.index(checksum))
        if announce is not None:
            announce(name)
        os.rename(self._tmp, self._folder / f"{name}.pack")
        os.rename(idx_tmp, self._folder / f"{name}.idx")
        fsync_folder(self._folder)
        self._tmp = None
        return name

    def abort(self) -> None:
        """Forget everything written so far."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._tmp is not None:
            self._tmp.unlink(missing_ok=True)
            self._tmp.with_name(self._tmp.name + ".idx").unlink(missing_ok=True)
            self._tmp = None

    # --- within ------------------------------------------------------------------------------------------
    def _end(self) -> int:
        """Where the next record begins."""
        if not self._flushed and not self._buffer:
            self._buffer += b"PACK\0\0\0\2\0\0\0\0"  # the count follows at the end
        return self._flushed + len(self._buffer)

    def _flush(self) -> None:
        if self._fd < 0:  # a small pack is written at once, when it is finished
            self._tmp = self._folder / f"{TMP_PREFIX}{os.getpid()}_{id(self):x}"
            self._fd = os.open(self._tmp, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o444)
        _pwrite(self._fd, self._buffer, self._flushed)
        self._flushed += len(self._buffer)
        self._buffer.clear()

    def _read(self, at: int, n: int) -> bytes:
        if at >= self._flushed:
            at -= self._flushed
            return bytes(self._buffer[at : at + n])
        data = os.pread(self._fd, n, at)
        return data if at + n <= self._flushed else data + bytes(self._buffer[: n - len(data)])

    def _checksum(self) -> bytes:
        # the count in the header is known last, and it is hashed first: so all is read once more
        digest = hashlib.sha1(usedforsecurity=False)
        offset = 0
        while chunk := os.pread(self._fd, CHUNK, offset):
            digest.update(chunk)
            offset += len(chunk)
        return digest.digest()


def _pwrite(fd: int, data: bytes | bytearray, at: int) -> None:
    with memoryview(data) as whole:
        done = 0
        while done < len(whole):
            with whole[done:] as rest:
                done += os.pwrite(fd, rest, at + done)


def _write_index(path: Path, pieces: Iterable[bytes]) -> None:
    digest = hashlib.sha1(usedforsecurity=False)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o444)
    with os.fdopen(fd, "wb") as file:
        for piece in pieces:
            digest.update(piece)
            file.write(piece)
        file.write(digest.digest())
        file.flush()
        os.fsync(file.fileno())


def _big_endian(values: array[int]) -> bytes:
    if sys.byteorder == "little":
        values.byteswap()
    return values.tobytes()
