"""The supervisor's way to the host: its standard input and output."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from rover.sandbox.docker.inside import wire


def read(size: int) -> bytes:
    """So many bytes of standard input; the box ends with it."""
    data = bytearray()
    while len(data) < size:
        piece = os.read(0, min(size - len(data), 1 << 20))
        if not piece:
            os._exit(0)
        data += piece
    return bytes(data)


def write(head: dict[str, Any], parts: list[bytes]) -> None:
    for piece in wire.pack(head, parts):
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(1, rest) :]


def code(shown: bool) -> str:
    """What this code is, which the host's has to be too: the same file where it is shown to the container, else one
    with the same bytes."""
    if shown:
        info = os.stat(__file__)
        return f"{info.st_ino}:{info.st_size}"
    here = os.path.dirname(os.path.abspath(__file__))
    h = hashlib.sha256()
    for folder in (here, os.path.join(here, "..", "..", "inside")):
        for name in sorted(name for name in os.listdir(folder) if name.endswith(".py")):
            with open(os.path.join(folder, name), "rb") as stream:
                h.update(name.encode() + b"\0" + stream.read() + b"\0")
    return h.hexdigest()
