"""Bodies of answers, read to a limit whatever the server sends: without end, or compressed to a fraction."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

#: the encodings that are asked for
ENCODINGS = "gzip"

_GZIP = 16 + zlib.MAX_WBITS


class Unreadable(Exception):
    """A body that is not what its headers say; the message says how."""


class Body(NamedTuple):
    """`cut`: there was more than the limit."""

    data: bytes
    cut: bool


async def read(response: Any, limit: int) -> Body:
    """The body of a response of httpx that nobody has read yet, up to so many bytes as they are unpacked.

    httpx unpacks a piece at once, however large it becomes, and has no limit for the body of an error; so the bytes
    are taken as they come.
    """
    kind = response.headers.get("content-encoding", "").strip().lower()
    if kind not in ("", "identity", "gzip", "x-gzip"):
        raise Unreadable(f"the body is encoded as {kind[:40]!r}, which was not asked for")
    unpacker = zlib.decompressobj(_GZIP) if "gzip" in kind else None
    out, seen = bytearray(), False
    try:
        async for piece in response.aiter_raw():
            seen = seen or bool(piece)
            room = limit + 1 - len(out)
            if unpacker is None:
                out += piece[:room]
            elif not unpacker.eof:  # what follows the end would be kept, unread
                out += unpacker.decompress(piece, room)
            if len(out) > limit:
                return Body(bytes(out[:limit]), True)
    except zlib.error:
        raise Unreadable("the body is not the gzip that it says it is") from None
    if unpacker is not None and not unpacker.eof and seen:
        raise Unreadable("the body ends before its gzip does")
    return Body(bytes(out), False)
