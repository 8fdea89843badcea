"""Reading one pack through its index. What is damaged is a StoreError that names the pack, never a wrong answer.

The index is mapped, the pack is read at positions: memory does not grow with its size, and threads and forked
children may share it. Deltas of another git are followed, without recursion.
"""

from __future__ import annotations

import mmap
import os
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rover_store.errors import StoreError
from rover_store.packs import deltas
from rover_store.packs.codec import codec
from rover_store.packs.format import (
    CHUNK,
    KIND_NAME,
    OFS_DELTA,
    REF_DELTA,
    WHOLE_LIMIT,
    TooLarge,
    deflated_bound,
    read_back,
    read_header,
    read_or_map,
)
from rover_store.plain_file import open_plain

_MSB = 1 << 31
_HEADER, _TRAILER = 12, 20
#: bytes read at once: the objects of one commit lie side by side
_AHEAD = 1 << 13
#: bytes of records that are handled at once
_RUN = 1 << 20
_CHAIN_LIMIT = 10_000
#: results of deltas that are kept for the next one: how many, and how large
_CACHED, _CACHED_BYTES = 64, 1 << 18


class Record(NamedTuple):
    """Where a record lies in its pack."""

    name: bytes
    kind: int
    start: int
    end: int
    crc: int


class Run(NamedTuple):
    """Records that lie one after the other, with their bytes; none where a record is too large to be held."""

    start: int
    data: bytes
    records: list[Record]


class Pack:
    """One pack on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path  # ends in .pack
        self.name = path.stem
        self._fd = -1
        self._size = 0
        self._window: tuple[int, bytes] = (0, b"")
        self._bases: dict[int, tuple[int, bytes]] = {}
        self._idx = read_or_map(str(path).removesuffix(".pack") + ".idx")
        if len(self._idx) < 1072 or self._idx[:8] != b"\xfftOc\0\0\0\2":
            raise self._bad_index("not a version 2 pack index")
        self._fanout = _words(self._idx[8:1032])
        if (counts := self._fanout.tolist()) != sorted(counts):
            raise self._bad_index("its table of first bytes does not rise")
        self.count: int = self._fanout[255]
        large, rest = divmod(len(self._idx) - 1072 - self.count * 28, 8)
        if large < 0 or rest or large > self.count:
            raise self._bad_index("the pack index is cut short" if large < 0 else "the pack index has a wrong size")
        self._large = large
        self._names = _Names(self._idx, self.count)
        self._offsets = 1032 + self.count * 24

    def __del__(self) -> None:
        self.close()

    # --- the index ---------------------------------------------------------------------------------------
    def find(self, name: bytes) -> int | None:
        """Offset of an object, None if it is not here."""
        i = self.ordinal(name)
        return None if i is None else self.offset(i)

    def ordinal(self, name: bytes) -> int | None:
        """Number of an object among the sorted ids, None if it is not here."""
        first = name[0]
        low = self._fanout[first - 1] if first else 0
        high = self._fanout[first]
        if low == high:
            return None
        a, b = low, high
        if high - low > 64:
            # ids are spread evenly: look near where this one ought to be, and search only where it is not
            start = low + ((high - low) * int.from_bytes(name[1:5], "big") >> 32)
            width = 16 + (high - low >> 5)  # beyond four times what chance would move it
            a, b = max(low, start - width), min(high, start + width)
        at = self._idx.find(name, 1032 + 20 * a, 1032 + 20 * b)
        if at >= 0 and (at - 1032) % 20 == 0:
            return (at - 1032) // 20
        if a == low and b == high and at < 0:
            return None
        i = bisect_left(self._names, name, low, high)
        return i if i < high and self._names[i] == name else None

    def offset(self, i: int) -> int:
        """Offset of the object of a number."""
        at = self._offsets + 4 * i
        value = int.from_bytes(self._idx[at : at + 4], "big")
        if value & _MSB:
            value &= _MSB - 1
            if value >= self._large:
                raise self._bad_index("an offset is beyond its table")
            at = self._offsets + 4 * self.count + 8 * value
            value = int.from_bytes(self._idx[at : at + 8], "big")
        return value

    def offsets(self) -> array[int]:
        """Offsets of all objects, in the order of their ids."""
        low = _words(self._idx[self._offsets : self._offsets + 4 * self.count])
        return low if not self._large else array("Q", map(self.offset, range(self.count)))

    def crc(self, i: int) -> int:
        """crc32 of a record as the index has it."""
        at = 1032 + self.count * 20 + 4 * i
        return int.from_bytes(self._idx[at : at + 4], "big")

    def names(self) -> Iterator[bytes]:
        """Ids of all objects, sorted."""
        for at in range(1032, 1032 + 20 * self.count, 20 << 12):
            part = self._idx[at : min(at + (20 << 12), 1032 + 20 * self.count)]
            yield from (part[i : i + 20] for i in range(0, len(part), 20))

    def matching(self, prefix: str) -> Iterator[str]:
        """Ids that begin with some hex digits."""
        low = bytes.fromhex(prefix.ljust(40, "0"))
        i = bisect_left(self._names, low, 0, self.count)
        while i < self.count and (name := self._names[i].hex()).startswith(prefix):
            yield name
            i += 1

    # --- objects -----------------------------------------------------------------------------------------
    def unfold(self, offset: int, chain: list[tuple[int, bytes]], ahead: int = _AHEAD) -> tuple[int, bytes] | bytes:
        """Follow deltas from an offset, adding each to `chain`, to the base, or to the id of one that is outside."""
        seen: set[int] = set()
        total = 0
        while True:
            if offset in self._bases:
                return self._bases[offset]
            kind, size, at = self._header(offset, ahead)
            if kind in KIND_NAME:
                return kind, self._inflate(at, size, ahead)
            total += size
            if offset in seen or len(seen) > _CHAIN_LIMIT or total > WHOLE_LIMIT:
                raise self._damaged(offset, "a chain of deltas without end")
            seen.add(offset)
            base, at = self._base(kind, offset, at)
            chain.append((offset, self._inflate(at, size, ahead)))
            if isinstance(base, bytes):
                return base
            offset = base

    def fold(self, base: tuple[int, bytes], chain: list[tuple[int, bytes]]) -> tuple[int, bytes]:
        """Apply the deltas of a chain to its base. Results on the way are kept for a while: they are bases often."""
        kind, data = base
        while chain:
            offset, delta = chain.pop()
            try:
                data = deltas.apply(data, delta)
            except TooLarge:
                raise
            except (StoreError, IndexError) as error:
                raise self._damaged(offset, str(error)) from None
            if chain:
                self._keep(offset, (kind, data))
        return kind, data

    def stream(self, offset: int) -> Iterator[bytes] | None:
        """Content of the object at an offset in chunks; None where it is a delta, which needs its base."""
        kind, size, at = self._header(offset)
        return self._inflate_stream(at, size) if kind in KIND_NAME else None

    def look(self, offset: int) -> tuple[int | bytes, int]:
        """Kind and size of an object without its content; for the kind, the id of a base that is outside."""
        kind, size, at = self._header(offset)
        if kind not in KIND_NAME:
            size = self._delta_size(*self._base(kind, offset, at), offset)
        seen: set[int] = set()
        while kind not in KIND_NAME:
            base, _ = self._base(kind, offset, at)
            if isinstance(base, bytes):
                return base, size
            if base in seen or len(seen) > _CHAIN_LIMIT:
                raise self._damaged(offset, "a chain of deltas without end")
            seen.add(base)
            offset = base
            kind, _, at = self._header(offset)
        return kind, size

    # --- records -----------------------------------------------------------------------------------------
    def runs(self) -> Iterator[Run]:
        """Every record, in the order of the file, many at a time. Bytes between records count to the one before."""
        offsets = self.offsets()
        crcs = _words(self._idx[1032 + self.count * 20 : 1032 + self.count * 24])
        order = sorted(range(self.count), key=offsets.__getitem__)
        self._open()
        last = self._size - _TRAILER
        first = 0
        while first < self.count:
            begin = offsets[order[first]]
            after = first + 1
            while after < self.count and offsets[order[after]] - begin <= _RUN:
                after += 1
            bounds = [offsets[i] for i in order[first : after + 1]]
            if after == self.count:
                bounds.append(last)
            if not _HEADER <= begin < bounds[-1] <= last:
                raise self._damaged(begin, "two objects at one place, or one beyond the end")
            yield self._run(order[first:after], bounds, crcs)
            first = after

    def _run(self, numbers: list[int], bounds: list[int], crcs: array[int]) -> Run:
        begin = bounds[0]
        data = os.pread(self._fd, min(bounds[-1] - begin, _RUN + CHUNK), begin)
        records = []
        for i, start, end in zip(numbers, bounds, bounds[1:], strict=False):
            if start >= end or start - begin >= len(data):
                raise self._damaged(start, "two objects at one place, or one beyond the end")
            records.append(Record(self._names[i], data[start - begin] >> 4 & 7, start, end, crcs[i]))
        return Run(begin, data if len(data) == bounds[-1] - begin else b"", records)

    def records(self) -> Iterator[tuple[bytes, int, bytes]]:
        """Every record as it is stored, in the order of the file: id, kind, bytes."""
        for run in self.runs():
            for record in run.records:
                yield record.name, record.kind, self.raw(record.start, record.end)

    def plain(self) -> bool:
        """Whether it holds no deltas, as all packs of ours."""
        self._open()
        if self._size > _RUN:
            return all(record.kind in KIND_NAME for run in self.runs() for record in run.records)
        data = os.pread(self._fd, self._size, 0)
        try:
            return all(data[offset] >> 4 & 7 in KIND_NAME for offset in self.offsets())
        except IndexError:
            raise self._bad_index("an offset is beyond the pack") from None

    def raw(self, start: int, end: int) -> bytes:
        """Bytes of the pack as they are."""
        return bytes(self._bytes(start, end - start, end - start))

    def close(self) -> None:
        """Let go of the file; it is opened again when something is read."""
        if self.__dict__.get("_fd", -1) >= 0:
            os.close(self._fd)
            self._fd = -1

    # --- within ------------------------------------------------------------------------------------------
    def _open(self) -> None:
        if self._fd >= 0:
            return
        fd = open_plain(self.path)
        try:
            size = os.fstat(fd).st_size
            head = os.pread(fd, _HEADER, 0)
            if head[:8] not in (b"PACK\0\0\0\2", b"PACK\0\0\0\3") or size < _HEADER + _TRAILER:
                raise StoreError(f"{self.path.name}: not a pack of a version that is known")
            # git compares them too: an index beside a pack that it was not made for would give wrong objects
            if head[8:] != self.count.to_bytes(4, "big") or os.pread(fd, 20, size - 20) != self._idx[-40:-20]:
                raise StoreError(f"{self.path.name}: cut short, or its index is another pack's")
        except BaseException:
            os.close(fd)
            raise
        self._size = size
        if self._fd < 0:  # another thread may have been faster
            self._fd = fd
        else:
            os.close(fd)

    def _bytes(self, at: int, n: int, ahead: int) -> memoryview:
        """Bytes at a position: `n`, or as many as there are. The last piece that was read is kept."""
        start, data = self._window
        if start <= at and at + n <= start + len(data):
            return memoryview(data)[at - start : at - start + n]
        self._open()
        n = max(0, min(n, self._size - at))
        data = os.pread(self._fd, min(max(n, ahead), max(0, self._size - at)), at)
        if len(data) <= CHUNK:
            self._window = (at, data)
        return memoryview(data)[:n]

    def _header(self, offset: int, ahead: int = _AHEAD) -> tuple[int, int, int]:
        self._open()
        if not _HEADER <= offset < self._size - _TRAILER:
            raise self._damaged(offset, "beyond the end")
        try:
            kind, size, used = read_header(self._bytes(offset, 32, ahead), 0)
        except (IndexError, StoreError) as error:
            raise self._damaged(offset, str(error)) from None
        if kind not in KIND_NAME and kind not in (OFS_DELTA, REF_DELTA):
            raise self._damaged(offset, "no kind of object")
        return kind, size, offset + used

    def _base(self, kind: int, offset: int, at: int) -> tuple[int | bytes, int]:
        """Where the base of a delta is (an offset, or an id outside the pack), and where its data begin."""
        head = self._bytes(at, 20, _AHEAD)
        if kind == REF_DELTA:
            name = bytes(head)
            own = self.find(name)
            return (name if own is None else own), at + 20
        try:
            back, used = read_back(head, 0)
        except (IndexError, StoreError) as error:
            raise self._damaged(offset, str(error)) from None
        if not 0 < back <= offset - _HEADER:
            raise self._damaged(offset, "a delta on a base before the first object")
        return offset - back, at + used

    def _delta_size(self, _base: int | bytes, at: int, offset: int) -> int:
        try:
            return deltas.sizes(codec().inflater().decompress(self._bytes(at, 128, _AHEAD), 32))[1]
        except (codec().error, IndexError, StoreError) as error:
            raise self._damaged(offset, str(error)) from None

    def _inflate(self, at: int, size: int, ahead: int) -> bytes:
        if size > WHOLE_LIMIT:
            raise TooLarge(f"{self.path.name}: the object at byte {at}", size)
        if size > CHUNK:
            return b"".join(self._inflate_stream(at, size))
        inflater = codec().inflater()
        try:
            out = inflater.decompress(self._bytes(at, deflated_bound(size), ahead), size + 1)
        except codec().error as error:
            raise self._damaged(at, str(error)) from None
        if len(out) != size or not inflater.eof:
            raise self._damaged(at, "wrong size")
        return out

    def _inflate_stream(self, at: int, size: int) -> Iterator[bytes]:
        self._open()
        inflater, left, data = codec().inflater(), size, b""
        try:
            while not inflater.eof:
                if out := inflater.decompress(data, CHUNK):
                    left -= len(out)
                    if left < 0:
                        break
                    yield out
                    data = inflater.unconsumed_tail
                elif not inflater.eof:
                    data = os.pread(self._fd, CHUNK, at)
                    at += len(data)
                    if not data:
                        break
        except codec().error as error:
            raise self._damaged(at, str(error)) from None
        if left or not inflater.eof:
            raise self._damaged(at, "wrong size")

    def _keep(self, offset: int, base: tuple[int, bytes]) -> None:
        if len(base[1]) <= _CACHED_BYTES:
            while len(self._bases) >= _CACHED:
                with suppress(KeyError, StopIteration, RuntimeError):  # another thread was faster
                    del self._bases[next(iter(self._bases))]
            self._bases[offset] = base

    def _damaged(self, at: int, why: str) -> StoreError:
        return StoreError(f"{self.path.name}: damaged at byte {at} ({why})")

    def _bad_index(self, why: str) -> StoreError:
        return StoreError(f"{self.path.with_suffix('.idx').name}: {why}")


class _Names:
    """The sorted ids of an index, as a sequence that bisect can search."""

    def __init__(self, idx: mmap.mmap | bytes, count: int) -> None:
        self._idx = idx
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, i: int) -> bytes:
        return self._idx[1032 + 20 * i : 1052 + 20 * i]


def _words(data: bytes) -> array[int]:
    """Numbers of four bytes, the highest first."""
    out = array("I", data)
    if sys.byteorder == "little":
        out.byteswap()
    return out
