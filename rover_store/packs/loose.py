"""What lies beside the packs in a folder of objects: loose files of another git, and the names of alternates."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rover_store.errors import StoreError
from rover_store.packs.codec import codec
from rover_store.packs.format import CHUNK, KIND_CODE, WHOLE_LIMIT, TooLarge
from rover_store.plain_file import open_plain, read_plain

_HEAD = 64


class Loose(NamedTuple):
    """A loose object that is being read. StoreError comes out of the chunks where the file is damaged."""

    kind: int
    size: int
    chunks: Iterator[bytes]

    def whole(self) -> bytes:
        """All its bytes."""
        if self.size > WHOLE_LIMIT:
            raise TooLarge("a loose object", self.size)
        return b"".join(self.chunks)


def open_loose(path: str) -> Loose | None:
    """A loose object at a path, None if there is none."""
    pieces = _inflate(path)
    try:
        head = next(pieces, b"")
    except (FileNotFoundError, NotADirectoryError):
        return None
    text, zero, data = head.partition(b"\0")
    kind, _, size = text.partition(b" ")
    if not zero or not size.isdigit() or kind.decode("latin-1") not in KIND_CODE:
        raise StoreError("its header is no object's")
    return Loose(KIND_CODE[kind.decode()], int(size), _measured(data, pieces, int(size)))


def _measured(first: bytes, rest: Iterator[bytes], size: int) -> Iterator[bytes]:
    left = size - len(first)
    if first and left >= 0:
        yield first
    for piece in rest if left >= 0 else ():
        left -= len(piece)
        if left < 0:
            break
        yield piece
    if left:
        raise StoreError("wrong size")


def _inflate(path: str) -> Iterator[bytes]:
    """Content of a deflated file: a first piece that holds the header, then chunks."""
    inflater = codec().inflater()
    with os.fdopen(open_plain(path), "rb") as file:
        try:
            yield inflater.decompress(file.read(CHUNK), _HEAD)
            data = inflater.unconsumed_tail
            while not inflater.eof:
                if out := inflater.decompress(data, CHUNK):
                    yield out
                    data = inflater.unconsumed_tail
                elif not (data := file.read(CHUNK)) and not inflater.eof:
                    raise StoreError("the file is cut short")
        except codec().error as error:
            raise StoreError(str(error)) from None


def alternates(objects: Path, depth: int) -> list[Path]:
    """Object folders that a folder names as its alternates, and those that they name, each once, loops left out."""
    found: list[Path] = []
    seen = {objects.resolve()}
    level = [objects]
    for _ in range(depth):
        named = [folder / line for folder in level for line in _lines(folder / "info" / "alternates")]
        level = []
        for folder in (path.resolve() for path in named):
            if folder not in seen and folder.is_dir():
                seen.add(folder)
                level.append(folder)
        found += level
    return found


def _lines(file: Path) -> list[str]:
    try:
        lines = os.fsdecode(read_plain(file)).splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [line for line in lines if line and not line.startswith("#") and "\0" not in line]
