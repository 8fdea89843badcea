"""Requests and answers over a container's stream, and the bytes of a living command's channel between them.

One request is under way at a time. While a command lives its thread reads the stream, and hands answers to the
threads that wait for them.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections import deque
from typing import Any

from rover.sandbox.docker.inside.wire import WINDOW, Closed, Garbled, Message
from rover.sandbox.docker.stream import Stream

_CHUNK = 1 << 16
_STUCK_S = 60.0
#: Bytes of a channel that wait for the caller: a window, and what a command that has ended had left in its socket.
AHEAD = 64 << 20


class Conversation:
    """Closed where the stream ends, TimeoutError where no answer comes; it is of no use after either."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._asking = threading.Lock()
        self._sending = threading.Lock()
        self._turn = threading.Condition()
        self._reader = False  # whether some thread reads the stream
        self._answers: deque[Message] = deque()
        self._broken = False

    def ask(self, head: dict[str, Any], parts: list[bytes], seconds: float) -> Message:
        """The answer to one request."""
        with self._asking:
            return self._ask(head, parts, seconds)

    def live(self, head: dict[str, Any], stdin: bytes, channel: socket.socket, seconds: float) -> Message:
        """Start a living command, carry its channel, and return how it ended."""
        with self._asking:
            answer = self._ask(head, [stdin], seconds)
            if "error" in answer.head:
                return answer
            with self._turn:
                self._reader = True
        try:
            return _Carrying(self, channel, seconds).run()
        except BaseException:
            self._broken = True
            raise
        finally:
            self._let_read()

    def wait_until_unread(self, seconds: float) -> bool:
        """Whether within this time no thread reads the stream any more."""
        with self._turn:
            return self._turn.wait_for(lambda: not self._reader, seconds)

    def _ask(self, head: dict[str, Any], parts: list[bytes], seconds: float) -> Message:
        with self._sending:
            self._stream.send(head, parts, seconds)
        end = time.monotonic() + seconds
        with self._turn:
            if not self._turn.wait_for(lambda: self._answers or self._broken or not self._reader, seconds):
                raise TimeoutError
            if self._answers:
                return self._answers.popleft()
            if self._broken:
                raise Closed
            self._reader = True
        try:
            return self._stream.receive(end - time.monotonic())
        except BaseException:
            self._broken = True
            raise
        finally:
            self._let_read()

    def _let_read(self) -> None:
        with self._turn:
            self._reader = False
            self._turn.notify_all()

    def receive(self, seconds: float) -> Message | None:
        """For the thread of a living command: a message that is its own, or None where it was another thread's."""
        message = self._stream.receive(seconds)
        if "live" in message.head:
            return message
        with self._turn:
            if self._answers:  # one is asked for at a time
                raise Garbled
            self._answers.append(message)
            self._turn.notify_all()
        return None

    def send_aside(self, head: dict[str, Any], data: bytes) -> bool:
        """Send something that has no answer; False where another thread is sending."""
        if not self._sending.acquire(blocking=False):
            return False
        try:
            self._stream.send(head, [data], _STUCK_S)
        finally:
            self._sending.release()
        return True

    @property
    def stream(self) -> Stream:
        return self._stream


class _Carrying:
    """One living command: bytes from the caller's socket to the container and back."""

    def __init__(self, talk: Conversation, channel: socket.socket, seconds: float) -> None:
        self._talk, self._channel = talk, channel
        self._end = time.monotonic() + seconds
        self._room = WINDOW  # bytes that the container still takes on
        self._inward = bytearray()  # to the container
        self._outward = bytearray()  # to the caller
        self._taken = 0  # bytes the caller has taken on, not yet told
        self._heard = self._hung_up = False  # the caller, the command closed its end
        self._told = False  # the container knows that the caller did

    def run(self) -> Message:
        poll = select.poll()
        while True:
            poll.register(self._talk.stream, select.POLLIN)
            if events := self._events():
                poll.register(self._channel, events)
            else:
                with contextlib.suppress(KeyError):
                    poll.unregister(self._channel)
            waits = 0.01 if self._unsent() else 1.0
            ready = dict(poll.poll(0 if self._talk.stream.buffered else waits * 1000))
            if time.monotonic() > self._end:
                raise TimeoutError
            if self._talk.stream.fileno() in ready or self._talk.stream.buffered:
                message = self._talk.receive(self._end - time.monotonic())
                if message is not None and self._take(message):
                    return message
            self._move()

    def _events(self) -> int:
        reading = select.POLLIN if not self._heard and self._room > len(self._inward) else 0
        return reading | (select.POLLOUT if self._outward else 0)

    def _unsent(self) -> bool:
        return bool(self._inward or self._taken or (self._heard and not self._told))

    def _take(self, message: Message) -> bool:
        """True for the message that says how the command ended."""
        what = message.head.get("live")
        if what == "data":
            if len(self._outward) + len(message.body) > AHEAD:
                raise Garbled
            self._outward += message.body
        elif what == "ack":
            if type(size := message.head.get("size")) is not int or not 0 < size <= WINDOW - self._room:
                raise Garbled
            self._room += size
        elif what == "end":
            self._hung_up = True
        else:
            self._flush()
            return True
        return False

    def _move(self) -> None:
        """Move what can be moved without waiting."""
        if not self._heard and self._room > len(self._inward):
            try:
                data = self._channel.recv(min(_CHUNK, self._room - len(self._inward)), socket.MSG_DONTWAIT)
                self._heard = not data
                self._inward += data
            except BlockingIOError:
                pass
            except OSError:
                self._heard = True
        self._give()
        if self._unsent():
            head = {"do": "channel", "ack": self._taken, "end": self._heard and not self._told}
            if self._talk.send_aside(head, bytes(self._inward)):
                self._room -= len(self._inward)
                self._inward.clear()
                self._taken, self._told = 0, self._heard

    def _give(self) -> None:
        try:
            while self._outward:
                count = self._channel.send(self._outward, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                del self._outward[:count]
                self._taken += count
        except BlockingIOError:
            return
        except OSError:  # the caller does not listen any more
            self._taken += len(self._outward)
            self._outward.clear()
        if self._hung_up:
            with contextlib.suppress(OSError):
                self._channel.shutdown(socket.SHUT_WR)
            self._hung_up = False

    def _flush(self) -> None:
        """The command has ended: the caller gets what is left, as far as he reads."""
        end = time.monotonic() + 5
        while self._outward and time.monotonic() < end:
            self._give()
            if self._outward:
                select.select([], [self._channel], [], 0.1)
