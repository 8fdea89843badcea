"""The stream that is attached to a container: what is written arrives at its standard input, what comes back is its
standard output and standard error in pieces, each with a head of the engine's."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from typing import Any

from rover.sandbox.docker.inside.wire import Closed, Message, pack, unpack

_PIECE = struct.Struct(">BxxxI")
STDOUT, STDERR = 1, 2
LAST_WORDS = 1 << 16


class Stream:
    """`raw` is what the engine's client hands out: a socket, or an object around one."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._sock = getattr(raw, "_sock", raw)
        self._out = bytearray()
        self._err = bytearray()
        self._deadline = 0.0
        self.most = LAST_WORDS  # bytes of a message's body; whoever knows what may come says so

    def fileno(self) -> int:
        return int(self._sock.fileno())

    def send(self, head: dict[str, Any], parts: list[bytes], seconds: float) -> None:
        """Closed where the other end is gone; TimeoutError where it takes nothing for so long."""
        self._sock.settimeout(seconds)
        try:
            for piece in pack(head, parts):
                self._sock.sendall(piece)
        except TimeoutError:
            raise
        except OSError:
            raise Closed from None

    def receive(self, seconds: float) -> Message:
        """The next message of the container's first process."""
        self._deadline = time.monotonic() + seconds
        return unpack(self._exactly, self.most)

    @property
    def buffered(self) -> bool:
        """Whether a message has begun to arrive."""
        return bool(self._out)

    def last_words(self) -> str:
        """The last line on standard error."""
        lines = self._err.decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip()[:300] if lines else ""

    def hang_up(self) -> None:
        """End the container's standard input, and so the container."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def drain(self, seconds: float) -> bool:
        """Read until the container has ended; False where it has not by then."""
        self._deadline = time.monotonic() + seconds
        try:
            while True:
                self._piece()
                self._out.clear()
        except Closed:
            return True
        except OSError:
            return False

    def close(self) -> None:
        response = getattr(self._raw, "_response", None)
        for item in (response, self._raw, self._sock):
            if item is not None:
                with contextlib.suppress(OSError, ValueError):
                    item.close()

    def _exactly(self, size: int) -> bytes:
        while len(self._out) < size:
            self._piece()
        data = bytes(self._out[:size])
        del self._out[:size]
        return data

    def _piece(self) -> None:
        kind, size = _PIECE.unpack(self._raw_bytes(_PIECE.size))
        data = self._raw_bytes(size)
        if kind == STDERR:
            self._err = (self._err + data)[-LAST_WORDS:]
        else:
            self._out += data

    def _raw_bytes(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._sock.settimeout(left)
            try:
                piece = self._sock.recv(min(size - len(data), 1 << 20))
            except TimeoutError:
                raise
            except OSError:
                raise Closed from None
            if not piece:
                raise Closed
            data += piece
        return bytes(data)
