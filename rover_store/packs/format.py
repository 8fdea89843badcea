"""What reader and writer of packs share: kinds, ids, the header of a record, names of unfinished files."""

from __future__ import annotations

import hashlib
import mmap
import os
from pathlib import Path

from rover_store.errors import StoreError
from rover_store.plain_file import open_plain

COMMIT, TREE, BLOB, TAG, OFS_DELTA, REF_DELTA = 1, 2, 3, 4, 6, 7
KIND_NAME = {COMMIT: "commit", TREE: "tree", BLOB: "blob", TAG: "tag"}
KIND_CODE = {name: code for code, name in KIND_NAME.items()}
#: prefix of our unfinished files; git's own prune knows `tmp_` too
TMP_PREFIX = "tmp_pack_rover_"
#: largest object that is read into memory; larger blobs are read as streams
WHOLE_LIMIT = 1 << 30
#: bytes that are asked for at once in streams
CHUNK = 1 << 18
#: a pack, and an index, of this size is read at once
SMALL = 16 << 10
_HEADS = {kind: name.encode() + b" %d\0" for kind, name in KIND_NAME.items()}


def object_id(kind: int, data: bytes) -> str:
    """The git id of an object."""
    return hashlib.sha1(_HEADS[kind] % len(data) + data, usedforsecurity=False).hexdigest()


def object_hash(kind: int, size: int) -> hashlib._Hash:
    """A hash that gives the git id of an object once it has seen its bytes."""
    return hashlib.sha1(_HEADS[kind] % size, usedforsecurity=False)


def record_header(kind: int, size: int) -> bytes:
    """Type and size of a pack record, git's variable-length form."""
    byte, size = (kind << 4) | (size & 15), size >> 4
    if not size:
        return bytes((byte,))
    out = bytearray()
    while size:
        out.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    out.append(byte)
    return bytes(out)


def read_header(data: bytes | memoryview, at: int) -> tuple[int, int, int]:
    """Kind, size, and where the rest of the record begins. IndexError where the data end too early."""
    byte = data[at]
    kind, size, shift = (byte >> 4) & 7, byte & 15, 4
    at += 1
    while byte & 0x80:
        byte = data[at]
        size |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift > 64:
            raise StoreError("a size beyond all bounds")
    return kind, size, at


def read_back(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """How far back the base of an offset delta lies, and where its data begin."""
    byte = data[at]
    at += 1
    value = byte & 0x7F
    while byte & 0x80:
        byte = data[at]
        at += 1
        value = ((value + 1) << 7) | (byte & 0x7F)
        if value > 1 << 62:
            raise StoreError("an offset beyond all bounds")
    return value, at


def deflated_bound(size: int) -> int:
    """More than zlib ever needs for `size` bytes."""
    return size + (size >> 9) + 64


class TooLarge(StoreError):
    """An object that is too large to be read at once."""

    def __init__(self, what: str, size: int) -> None:
        super().__init__(f"{what}: {size / (1 << 30):.1f} GiB, too large to be read at once", hint="stream it")
        self.size = size


def fsync_folder(path: Path) -> None:
    """Make renames in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_or_map(path: str) -> mmap.mmap | bytes:
    """The bytes of a file: those of a small one read, those of a large one mapped. StoreError if it is empty."""
    fd = open_plain(path)
    try:
        size = os.fstat(fd).st_size
        if size == 0:
            raise StoreError(f"{os.path.basename(path)}: empty")
        return os.pread(fd, size, 0) if size <= SMALL else mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(fd)
