"""A connection of http.client on which a request ends at a given time, whatever arrives until then.

The timeout of a socket counts for one read: a server that sends a byte now and then is waited for without end.
Here every read and write gets the time that is left.
"""

from __future__ import annotations

import http.client
import io
import math
import socket
import time
from functools import partial
from typing import Any

#: a server that is there accepts a connection sooner
CONNECT_S = 30.0

_PIECE = 16 << 10


class Link(http.client.HTTPConnection):
    """`until` (of time.monotonic) is set before each request; TimeoutError from then on."""

    until = math.inf

    def connect(self) -> None:
        self.timeout = min(CONNECT_S, _left(self.until))
        super().connect()

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        for start in range(0, len(data), _PIECE):  # TLS gives each of its records a whole timeout
            self.sock.settimeout(_left(self.until))
            super().send(data[start : start + _PIECE])

    def getresponse(self) -> http.client.HTTPResponse:
        self.response_class = partial(_Response, until=self.until)  # type: ignore[assignment]
        return super().getresponse()


class SecureLink(Link, http.client.HTTPSConnection):
    """The same over TLS."""


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, until: float, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        self.fp = io.BufferedReader(_Stream(sock, self.fp.detach(), until))


class _Stream(io.RawIOBase):
    def __init__(self, sock: socket.socket, raw: io.RawIOBase, until: float) -> None:
        self._sock, self._raw, self._until = sock, raw, until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_left(self._until))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left if left < math.inf else 1e6
