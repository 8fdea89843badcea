"""Messages between the host, the supervisor and the zygote: a JSON head, a body of bytes, open descriptors."""

from __future__ import annotations

import array
import json
import os
import socket
import struct
from typing import Any, NamedTuple

_SIZES = struct.Struct(">IQ")
MAX_HEAD = 64 << 20
MAX_FDS = 8


class Message(NamedTuple):
    head: dict[str, Any]
    body: bytes
    fds: list[int]


class Closed(Exception):  # the other end is gone; each side decides what that means
    """The other end is gone."""


def send(
    sock: socket.socket, head: dict[str, Any], body: bytes | list[bytes] = b"", fds: list[int] | None = None
) -> None:
    """Send one message. Closed where the other end is gone."""
    text = json.dumps(head, separators=(",", ":")).encode()
    parts = [body] if isinstance(body, bytes) else body
    prefix = _SIZES.pack(len(text), sum(map(len, parts))) + text
    extra = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    try:
        sent = sock.sendmsg([prefix], extra)
        if sent < len(prefix):
            sock.sendall(prefix[sent:])
        for part in parts:
            if part:
                sock.sendall(part)
    except (BrokenPipeError, ConnectionError):
        raise Closed from None


def receive(sock: socket.socket) -> Message:
    """Receive one message. Closed at the end of the stream."""
    fds: list[int] = []
    first, fds = _first(sock)
    first += _exactly(sock, _SIZES.size - len(first))
    head_size, body_size = _SIZES.unpack(first)
    if head_size > MAX_HEAD:
        raise Closed
    head = json.loads(_exactly(sock, head_size))
    return Message(head, bytes(_exactly(sock, body_size)) if body_size else b"", fds)


def _first(sock: socket.socket) -> tuple[bytes, list[int]]:
    """The first bytes of a message and the descriptors that came with them."""
    room = socket.CMSG_SPACE(MAX_FDS * 4)
    try:
        data, extra, _, _ = sock.recvmsg(_SIZES.size, room, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        raise Closed from None
    fds = array.array("i")
    for level, kind, value in extra:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(value[: len(value) - len(value) % fds.itemsize])
    if not data:
        for fd in fds:
            os.close(fd)
        raise Closed
    return data, fds.tolist()


def _exactly(sock: socket.socket, size: int) -> bytearray:
    buffer = bytearray(size)
    view, done = memoryview(buffer), 0
    while done < size:
        try:
            count = sock.recv_into(view[done:])
        except ConnectionError:
            raise Closed from None
        if not count:
            raise Closed
        done += count
    return buffer
