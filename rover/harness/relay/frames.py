"""Messages between the relay in a box and the host: a JSON head and a body of bytes, both of bounded size.

Neither side trusts the other's sizes: the host, since what is in the box may be anyone; the relay, to be simple.
"""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

SIZES = struct.Struct(">II")
#: bytes of a head; of a body that goes out of the box, and of one that goes in
MAX_HEAD = 64 << 10
MAX_OUT = 8 << 20
MAX_IN = 64 << 20


class Broken(Exception):
    """What came is no message."""


class Message(NamedTuple):
    head: dict[str, Any]
    body: bytes


def pack(head: dict[str, Any], body: bytes = b"") -> bytes:
    """A message as bytes."""
    text = json.dumps(head).encode()
    return SIZES.pack(len(text), len(body)) + text + body


class Incoming:
    """Bytes as they come, until they are whole messages. Holds at most one message beyond what was fed."""

    def __init__(self, max_body: int) -> None:
        self._max_body = max_body
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are whole now. Broken where one is too large or has no sound head."""
        self._buffer += data
        found = []
        while len(self._buffer) >= SIZES.size:
            head, body = SIZES.unpack_from(self._buffer)
            if head > MAX_HEAD or body > self._max_body:
                raise Broken(f"a message of {head} and {body} bytes")
            end = SIZES.size + head + body
            if len(self._buffer) < end:
                break
            text = bytes(self._buffer[SIZES.size : SIZES.size + head])
            rest = bytes(self._buffer[SIZES.size + head : end])
            del self._buffer[:end]
            found.append(Message(_object(text), rest))
        return found


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise Broken("a head that is no JSON") from None
    if not isinstance(value, dict):
        raise Broken("a head that is no object")
    return value
