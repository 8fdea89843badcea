"""Git packs: a streaming writer of one pack with its index, and a reader over memory maps.

Our packs hold no deltas, so that an object is one inflate away and packs can be rolled together by copying
records. Packs of a foreign git may hold deltas; the reader follows them.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path

from rover_store.errors import StoreError

COMMIT, TREE, BLOB, TAG, OFS_DELTA, REF_DELTA = 1, 2, 3, 4, 6, 7
KIND_NAME = {COMMIT: "commit", TREE: "tree", BLOB: "blob", TAG: "tag"}
KIND_CODE = {name: code for code, name in KIND_NAME.items()}
#: prefix of our unfinished files; git's own prune knows `tmp_` too
TMP_PREFIX = "tmp_pack_rover_"
_LARGE = 1 << 31


def object_id(kind: int, data: bytes) -> str:
    """The git id of an object."""
    header = b"%s %d\0" % (KIND_NAME[kind].encode(), len(data))
    h = hashlib.sha1(header, usedforsecurity=False)
    h.update(data)
    return h.hexdigest()


def record_header(kind: int, size: int) -> bytes:
    """Type and size of a pack record, git's variable-length form."""
    byte, size = (kind << 4) | (size & 15), size >> 4
    out = bytearray()
    while size:
        out.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    out.append(byte)
    return bytes(out)


class PackWriter:
    """Streams objects into one temporary pack; `finish` makes it durable and visible, `abort` leaves nothing.

    The folder is objects/pack of a repository. Nothing is created before the first object.
    """

    def __init__(self, folder: Path, level: int = 1) -> None:
        self._folder = folder
        self._level = level
        self._fd = -1
        self._tmp: Path | None = None
        self._buffer = bytearray()
        self._flushed = 0
        self.entries: dict[bytes, tuple[int, int]] = {}  # id -> offset, crc32

    def __contains__(self, object_hex: str) -> bool:
        try:
            return bytes.fromhex(object_hex) in self.entries
        except ValueError:  # a name, not an id
            return False

    def add(self, kind: int, data: bytes, known: str = "") -> str:
        """Write one object, once, and return its id, which a caller that has it may give."""
        name = known or object_id(kind, data)
        if bytes.fromhex(name) not in self.entries:
            self.add_record(bytes.fromhex(name), record_header(kind, len(data)) + zlib.compress(data, self._level))
        return name

    def add_record(self, name: bytes, record: bytes) -> None:
        """Write one finished record (no delta)."""
        if self._fd < 0:
            self._open()
        self.entries[name] = (self._flushed + len(self._buffer), zlib.crc32(record))
        self._buffer += record
        if len(self._buffer) >= 1 << 20:
            self._flush()

    def get(self, object_hex: str) -> tuple[int, bytes]:
        """Read back an object written to this pack."""
        self._flush()
        offset, _ = self.entries[bytes.fromhex(object_hex)]
        kind, size, start = _read_header(os.pread(self._fd, 32, offset), 0)
        return kind, zlib.decompressobj().decompress(os.pread(self._fd, _bound(size), offset + start))

    def finish(self, announce: Callable[[str], None] | None = None) -> str | None:
        """Make the pack visible: fsync both files, rename the pack, then its index, fsync the folder.

        Returns the pack's name, or None if nothing was written. `announce` is told the name before the first
        rename, so that a recovery can finish or remove what a killed writer left.
        """
        if self._tmp is None:
            return None
        self._flush()
        os.pwrite(self._fd, struct.pack(">I", len(self.entries)), 8)
        checksum = self._checksum()
        os.pwrite(self._fd, checksum, self._flushed)
        os.fsync(self._fd)
        os.fchmod(self._fd, 0o444)
        os.close(self._fd)
        self._fd = -1
        name = f"pack-{checksum.hex()}"
        idx_tmp = self._tmp.with_name(self._tmp.name + ".idx")
        _write_durable(idx_tmp, index_bytes(self.entries, checksum))
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

    def _open(self) -> None:
        self._tmp = self._folder / f"{TMP_PREFIX}{os.getpid()}_{id(self):x}"
        self._fd = os.open(self._tmp, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._buffer += struct.pack(">4sII", b"PACK", 2, 0)

    def _flush(self) -> None:
        view = memoryview(bytes(self._buffer))
        while view:
            written = os.pwrite(self._fd, view, self._flushed)
            self._flushed += written
            view = view[written:]
        self._buffer.clear()

    def _checksum(self) -> bytes:
        h = hashlib.sha1(usedforsecurity=False)
        offset = 0
        while chunk := os.pread(self._fd, 1 << 20, offset):
            h.update(chunk)
            offset += len(chunk)
        return h.digest()


def index_bytes(entries: dict[bytes, tuple[int, int]], checksum: bytes) -> bytes:
    """A version 2 pack index."""
    names = sorted(entries)
    fanout = [0] * 256
    for name in names:
        fanout[name[0]] += 1
    for i in range(1, 256):
        fanout[i] += fanout[i - 1]
    offsets, large = bytearray(), bytearray()
    for name in names:
        offset = entries[name][0]
        if offset >= _LARGE:
            offsets += struct.pack(">I", _LARGE | (len(large) // 8))
            large += struct.pack(">Q", offset)
        else:
            offsets += struct.pack(">I", offset)
    crcs = struct.pack(f">{len(names)}I", *(entries[name][1] for name in names))
    head = b"\xfftOc" + struct.pack(">I256I", 2, *fanout)
    body = b"".join((head, b"".join(names), crcs, bytes(offsets), bytes(large), checksum))
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


class Pack:
    """One pack on disk, read through its index. Delta bases outside the pack are asked of `outside`."""

    def __init__(self, path: Path) -> None:
        self.path = path  # ends in .pack
        self.name = path.stem
        self._idx = _map(path.with_suffix(".idx"))
        self._data: mmap.mmap | None = None
        if len(self._idx) < 1072 or self._idx[:8] != b"\xfftOc\0\0\0\2":
            raise StoreError(f"{path.with_suffix('.idx').name}: not a version 2 pack index")
        self._fanout = struct.unpack(">256I", self._idx[8:1032])
        self.count = self._fanout[255]
        if len(self._idx) < 1032 + self.count * 28 + 40:
            raise StoreError(f"{path.with_suffix('.idx').name}: the pack index is cut short")
        self._names = _Names(self._idx, 1032)
        self._offsets = 1032 + self.count * 24

    def find(self, name: bytes) -> int | None:
        """Offset of an object, None if it is not here."""
        low = self._fanout[name[0] - 1] if name[0] else 0
        high = self._fanout[name[0]]
        i = bisect_left(self._names, name, low, high)
        return self.offset(i) if i < high and self._names[i] == name else None

    def offset(self, i: int) -> int:
        at = self._offsets + 4 * i
        value: int = struct.unpack(">I", self._idx[at : at + 4])[0]
        if value & _LARGE:
            at = self._offsets + 4 * self.count + 8 * (value & (_LARGE - 1))
            value = struct.unpack(">Q", self._idx[at : at + 8])[0]
        return value

    def crc(self, i: int) -> int:
        at = 1032 + self.count * 20 + 4 * i
        return int(struct.unpack(">I", self._idx[at : at + 4])[0])

    def names(self) -> Iterator[bytes]:
        for i in range(self.count):
            yield self._names[i]

    def matching(self, prefix: str) -> Iterator[str]:
        """Ids that begin with some hex digits."""
        low = bytes.fromhex(prefix.ljust(40, "0"))
        i = bisect_left(self._names, low, 0, self.count)
        while i < self.count and (name := self._names[i].hex()).startswith(prefix):
            yield name
            i += 1

    @property
    def data(self) -> mmap.mmap:
        if self._data is None:
            self._data = _map(self.path)
        return self._data

    def read(self, offset: int, outside: Callable[[bytes], tuple[int, bytes]]) -> tuple[int, bytes]:
        """Kind and content of the object at an offset."""
        kind, size, at = _read_header(self.data, offset)
        if kind == OFS_DELTA:
            back, at = _read_ofs(self.data, at)
            base_kind, base = self.read(offset - back, outside)
            return base_kind, _apply(base, self._inflate(at, size))
        if kind == REF_DELTA:
            name = self.data[at : at + 20]
            own = self.find(name)
            base_kind, base = outside(name) if own is None else self.read(own, outside)
            return base_kind, _apply(base, self._inflate(at + 20, size))
        if kind not in KIND_NAME:
            raise StoreError(f"{self.path.name}: damaged at byte {offset}")
        return kind, self._inflate(at, size)

    def records(self) -> Iterator[tuple[bytes, int, bytes]]:
        """Every record as it is stored, in the order of the file: id, kind, bytes."""
        order = sorted((self.offset(i), i) for i in range(self.count))
        ends = [o for o, _ in order[1:]] + [len(self.data) - 20]
        for (start, i), end in zip(order, ends, strict=True):
            yield self._names[i], _read_header(self.data, start)[0], self.data[start:end]

    def close(self) -> None:
        self._idx.close()
        if self._data is not None:
            self._data.close()

    def _inflate(self, at: int, size: int) -> bytes:
        with memoryview(self.data) as whole, whole[at : at + _bound(size)] as part:
            try:
                out = zlib.decompressobj().decompress(part, size + 1)
            except zlib.error as error:
                raise StoreError(f"{self.path.name}: damaged at byte {at} ({error})") from None
        if len(out) != size:
            raise StoreError(f"{self.path.name}: damaged at byte {at} (wrong size)")
        return out


class _Names:
    """The sorted ids of an index, as a sequence that bisect can search."""

    def __init__(self, idx: mmap.mmap, start: int) -> None:
        self._idx = idx
        self._start = start

    def __len__(self) -> int:
        return int(struct.unpack(">I", self._idx[1028:1032])[0])

    def __getitem__(self, i: int) -> bytes:
        at = self._start + 20 * i
        return self._idx[at : at + 20]


def _bound(size: int) -> int:
    """More than zlib ever needs for `size` bytes."""
    return size + (size >> 9) + 64


def _read_header(data: bytes | mmap.mmap, at: int) -> tuple[int, int, int]:
    byte = data[at]
    kind, size, shift = (byte >> 4) & 7, byte & 15, 4
    at += 1
    while byte & 0x80:
        byte = data[at]
        size |= (byte & 0x7F) << shift
        shift += 7
        at += 1
    return kind, size, at


def _read_ofs(data: mmap.mmap, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    value = byte & 0x7F
    while byte & 0x80:
        byte = data[at]
        at += 1
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at


def _apply(base: bytes, delta: bytes) -> bytes:
    from dulwich.pack import apply_delta

    return b"".join(apply_delta(base, delta))


def _map(path: Path) -> mmap.mmap:
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise StoreError(f"{path.name}: empty")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _write_durable(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o444)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def fsync_folder(path: Path) -> None:
    """Make renames in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
