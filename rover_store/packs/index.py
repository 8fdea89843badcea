"""The index of a pack, made from the pack alone: for a pack whose index is missing or damaged."""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from pathlib import Path

from rover_store.errors import StoreError
from rover_store.packs import KIND_NAME, OFS_DELTA, REF_DELTA, fsync_folder
from rover_store.packs.format import read_back, read_header
from rover_store.packs.scan import WINDOW, Base, Deltas, PackFile, checksum, object_digest
from rover_store.packs.write import Entries
from rover_store.plain_file import open_plain


def rebuild_index(path: Path, base: Base) -> int:
    """Write the index of a pack again. Returns how many objects it lists. StoreError where the pack is damaged."""
    pack = _Plain(path)
    try:
        size = pack.size - 20
        trailer = pack.read_at(max(0, size), 20)
        if size < 12 or pack.read_at(0, 4) != b"PACK" or checksum(pack.fd, size) != trailer:
            raise StoreError(f"{path.name}: its checksum differs; its index cannot be trusted to it")
        entries = _entries(pack, struct.unpack(">I", pack.read_at(8, 4))[0], base)
    finally:
        os.close(pack.fd)
    target = path.with_suffix(".idx")
    scratch = target.with_name(f"tmp_idx_rover_{os.getpid()}")
    fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o444)
    with os.fdopen(fd, "wb") as file:
        digest = hashlib.sha1(usedforsecurity=False)
        for piece in entries.index(trailer):
            digest.update(piece)
            file.write(piece)
        file.write(digest.digest())
        file.flush()
        os.fsync(file.fileno())
    os.rename(scratch, target)
    fsync_folder(path.parent)
    return len(entries)


class _Plain(PackFile):
    """A pack without an index, as far as following deltas needs it."""

    def __init__(self, path: Path) -> None:
        self._place, self._whole = str(path), b""
        self.fd = self._fd = open_plain(path)
        self.size = os.fstat(self.fd).st_size
        self.known: dict[bytes, int] = {}

    def find(self, name: bytes) -> int | None:
        return self.known.get(name)

    def offset(self, number: int) -> int:
        return number


def _entries(pack: _Plain, count: int, base: Base) -> Entries:
    entries, deltas = Entries(), Deltas(pack, base)
    waiting: list[tuple[int, int]] = []
    at = 12
    for _ in range(count):
        kind, size, start = read_header(pack.read_at(at, 32), 0)
        if kind == OFS_DELTA:
            start += read_back(pack.read_at(at + start, 16), 0)[1]
        elif kind == REF_DELTA:
            start += 20
        elif kind not in KIND_NAME:
            raise StoreError(f"{pack.path.name}: damaged at byte {at}")
        data, end = _inflate(pack, at + start, size, keep=kind in KIND_NAME)
        crc = 0
        for piece in pack.pieces(at, end):
            crc = zlib.crc32(piece, crc)
        if kind in KIND_NAME:
            name = object_digest(kind, data)
            entries.add(name, at, crc)
            pack.known[name] = at
        else:
            waiting.append((at, crc))
        at = end
    while waiting:
        left = []
        for at, crc in waiting:
            try:
                name = object_digest(*deltas.read(at))
            except StoreError:
                left.append((at, crc))  # its base may be a delta that comes later
                continue
            entries.add(name, at, crc)
            pack.known[name] = at
        if len(left) == len(waiting):
            raise StoreError(f"{pack.path.name}: {len(left)} deltas have no base")
        waiting = left
    return entries


def _inflate(pack: PackFile, at: int, size: int, *, keep: bool) -> tuple[bytes, int]:
    """Bytes of a record's body, and where the next record begins."""
    whole, out, total = zlib.decompressobj(), [], 0
    try:
        while not whole.eof:
            piece = pack.read_at(at, min(WINDOW, size + (size >> 9) + 64))
            if not piece:
                break
            part = whole.decompress(piece)
            at += len(piece) - len(whole.unused_data)
            total += len(part)
            if keep:
                out.append(part)
    except zlib.error as error:
        raise StoreError(f"{pack.path.name}: damaged near byte {at} ({error})") from None
    if total != size or not whole.eof:
        raise StoreError(f"{pack.path.name}: damaged near byte {at} (wrong size)")
    return b"".join(out), at
