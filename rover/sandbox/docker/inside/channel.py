"""The channel of a living command: its end is a socket, the host's end are messages. Neither side holds more than a
window of bytes that the other has not taken on, so a command that does not read holds nobody up."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from typing import Any

from rover.sandbox.docker.inside.wire import WINDOW, Message

Write = Callable[[dict[str, Any], list[bytes]], None]


class Channel:
    """`far` is the command's end."""

    def __init__(self, write: Write) -> None:
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self._write = write
        self._room = WINDOW  # bytes that the host still takes on
        self._pending = bytearray()  # for the command
        self._ended = self._deaf = False  # the host, the command closed its end
        self._over = False  # nothing more comes from the command

    def events(self) -> int:
        """What to wait for at `near`; 0 for nothing."""
        reading = 0 if self._over or not self._room else select.POLLIN
        return reading | (select.POLLOUT if self._pending and not self._deaf else 0)

    def take(self, message: Message) -> None:
        """What the host sent: bytes, that there are no more, or that it took some on."""
        self._room += int(message.head.get("ack", 0))
        self._pending += message.body
        self._ended |= bool(message.head.get("end"))
        self.pump()

    def pump(self) -> None:
        """Move what can be moved, without waiting."""
        self._feed()
        while self._room and not self._over:
            try:
                data = self.near.recv(min(self._room, 1 << 16))
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            self._told(data)

    def drain(self) -> None:
        """The command is dead: what it sent goes to the host, however much it is."""
        self._room = 1 << 40
        self.pump()

    def close(self) -> None:
        self.near.close()
        self.far.close()

    def _told(self, data: bytes) -> None:
        self._room -= len(data)
        self._over = not data
        self._write({"live": "data" if data else "end"}, [data])

    def _feed(self) -> None:
        done = 0
        while self._pending:
            try:
                count = len(self._pending) if self._deaf else self.near.send(self._pending)
            except BlockingIOError:
                break
            except OSError:
                self._deaf = True
                continue
            done += count
            del self._pending[:count]
        if done:
            self._write({"live": "ack", "size": done}, [])
        if self._ended and not self._pending and not self._deaf:
            self._deaf = True
            self.near.shutdown(socket.SHUT_WR)
