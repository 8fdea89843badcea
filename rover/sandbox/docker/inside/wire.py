"""Messages over a stream of bytes: a JSON head and a body. Descriptors cannot travel here, so bodies hold all."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

_SIZES = struct.Struct(">IQ")
MAX_HEAD = 64 << 20
MAX_BODY = 1 << 40
#: Bytes of a channel that may be under way in one direction before the other side has taken them on.
WINDOW = 128 << 10  # less than the pipes and sockets between hold: no side is ever stuck in writing


class Message(NamedTuple):
    head: dict[str, Any]
    body: bytes


class Closed(Exception):  # each side decides what that means
    """The other end is gone."""


def pack(head: dict[str, Any], parts: list[bytes]) -> list[bytes]:
    """A message as pieces to write one after another; small ones are joined."""
    text = json.dumps(head, separators=(",", ":")).encode()
    size = sum(map(len, parts))
    prefix = _SIZES.pack(len(text), size) + text
    if size < 1 << 16:
        return [prefix + b"".join(parts)]
    return [prefix, *(part for part in parts if part)]


class Garbled(Closed):
    """What came is no message, or more than may come; what follows it cannot be read."""


def unpack(exactly: Callable[[int], bytes], most: int = MAX_BODY) -> Message:
    """Read one message with a body of at most so many bytes; `exactly` gives so many bytes or raises Closed."""
    head_size, body_size = _SIZES.unpack(exactly(_SIZES.size))
    if head_size > MAX_HEAD or body_size > most:
        raise Garbled
    try:
        head = json.loads(exactly(head_size))
    except (ValueError, RecursionError):
        raise Garbled from None
    if not isinstance(head, dict):
        raise Garbled
    return Message(head, exactly(body_size) if body_size else b"")
