"""Files of any size into a pack: hashed in a first pass, and deflated in a second one only where they are new."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from rover_store.packs import BLOB, CHUNK, PackWriter, object_hash

#: smaller files are read whole: one pass
_SMALL = 1 << 20


def write_file(writer: PackWriter, known: Callable[[str], bool], source: Path | BinaryIO) -> str:
    """Write the rest of a file as a blob, unless it is known already, and return its id.

    A file object must be seekable. StoreError if its bytes change meanwhile; then nothing is kept.
    """
    if isinstance(source, Path):
        with open(source, "rb") as file:
            return write_file(writer, known, file)
    start = source.tell()
    size = source.seek(0, os.SEEK_END) - start
    source.seek(start)
    digest = object_hash(BLOB, size)
    whole = b""
    for chunk in _chunks(source, size):
        digest.update(chunk)
        whole = chunk if size <= _SMALL else b""
    name = digest.hexdigest()
    if name in writer or known(name):
        return name
    if size == len(whole):
        return writer.add(BLOB, whole, name)
    source.seek(start)
    return writer.add_stream(BLOB, size, _chunks(source, size), name)


def _chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """As many bytes as there were at first: a file that grows meanwhile shows as changed, not as endless."""
    step = max(size, 1) if size <= _SMALL else CHUNK
    while size > 0 and (chunk := file.read(min(step, size))):
        size -= len(chunk)
        yield chunk
