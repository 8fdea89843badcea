"""The host's side of one box: a socket to its supervisor, and a handle that can end it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from rover.sandbox.answers import NO_ANSWER, NO_MESSAGE, Answering, completed, manifest, returned
from rover.sandbox.inside import frames
from rover.sandbox.layout import ENVIRONMENT
from rover.sandbox.protocol import CallResult, Completed, Entry, Files
from rover.sandbox.warm import kind, warm
from rover_store.errors import SandboxError
from rover_store.records import Limits

#: Seconds beyond a job's own limit after which a box that does not answer is given up.
PATIENCE = 60.0


class BubblewrapSandbox(Answering):
    """One living box. One request at a time; `close` may be called from any thread and ends a running job."""

    def __init__(self, sock: socket.socket, pidfd: int, errors: int, limits: Limits, env: Mapping[str, str]) -> None:
        self._sock = sock
        self._errors = errors
        self._limits = limits
        self._env = {**ENVIRONMENT, **env}
        self._lock = threading.Lock()
        self._closed = False
        self._start: dict[str, Entry] | None = None  # None: nothing is laid out
        self._end = weakref.finalize(self, _end, sock, pidfd, errors, os.getpid())

    def run(
        self,
        argv: list[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        channel: socket.socket | None = None,
    ) -> Completed:
        limits = limits or self._limits
        head = {"do": "run", "argv": argv, "env": {**self._env, **(env or {})}, "limits": limits.model_dump()}
        if channel is not None:
            return self._live(head, stdin, channel, limits.wall_s)
        with _sealed([stdin] if stdin else []) as fds:
            try:
                answer = self._ask(head, fds=fds, seconds=limits.wall_s)
            except frames.Closed:
                return Completed(None, b"", b"", "cancelled")
        with self._reading():
            return completed(answer)

    def _live(self, head: dict[str, Any], stdin: bytes, channel: socket.socket, wall_s: float) -> Completed:
        """Run a command that lives beside other requests; how it ended comes over a socket of its own."""
        head = {**head, "live": True, "env": {**head["env"], "ROVER_CHANNEL": "3"}}
        near, far = socket.socketpair()
        with near:
            try:
                with far, _sealed([stdin] if stdin else []) as fds:
                    self._ask(head, fds=[*fds, channel.fileno(), far.fileno()])
                near.settimeout(wall_s + PATIENCE)
                answer = frames.receive(near)
            except (frames.Closed, TimeoutError, OSError):
                if self._closed:
                    return Completed(None, b"", b"", "cancelled")
                said = last_words(self._errors)
                self.close()
                raise SandboxError(f"the box ended unexpectedly{': ' + said if said else ''}") from None
            except NO_MESSAGE:
                self.close()
                raise SandboxError(NO_ANSWER) from None
            except BaseException:
                self.close()
                raise
        if "error" in answer.head:
            raise SandboxError(f"in the box: {answer.head['error']}")
        with self._reading():
            return completed(answer)

    def call(self, entry: str, payload: Any, *, limits: Limits | None = None) -> CallResult:
        limits = limits or self._limits
        modules = warm(entry.partition(":")[0], self._start or ())
        head = {"do": "call", "warm": modules, "kind": kind(modules), "limits": limits.model_dump()}
        job = json.dumps({"entry": entry, "payload": payload}).encode()
        with _sealed([job]) as fds, open(os.memfd_create("result"), "r+b") as result:
            try:
                answer = self._ask(head, fds=[*fds, result.fileno()], seconds=limits.wall_s)
            except frames.Closed:
                return CallResult(error="cancelled", breach="cancelled")
            result.seek(0)
            text = result.read(max(limits.file_bytes, 1 << 20) + 1)
        with self._reading():
            size = answer.head["stdout"]
            return returned(answer.head, answer.body[:size], answer.body[size:], text)

    def reset(self, files: Files | None = None, *, limits: Limits | None = None) -> None:
        self._limits = limits or self._limits
        bounds = {"disk_bytes": self._limits.disk_bytes, "inodes": self._limits.inodes}
        start = self._start if files is None else manifest(files)
        if start is None:
            raise SandboxError("the box has no start state: the last one could not be laid out")
        if files is None or start == self._start:
            self._request({"do": "reset", **bounds})
            return
        self._lay_out(files, start, bounds)

    def close(self) -> None:
        self._closed = True
        self._end()

    def _request(self, head: dict[str, Any], parts: list[bytes] | None = None) -> frames.Message:
        try:
            return self._ask(head, parts)
        except frames.Closed:
            raise SandboxError(f"{head['do']}: the box was closed meanwhile") from None

    def _ask(
        self, head: dict[str, Any], body: list[bytes] | None = None, fds: list[int] | None = None, seconds: float = 0
    ) -> frames.Message:
        """One exchange. Closed where another thread closed the box; whatever breaks off an exchange ends the box."""
        with self._lock:
            if self._closed:
                raise SandboxError("the box is closed")
            try:
                self._sock.settimeout(seconds + PATIENCE)
                frames.send(self._sock, head, body or [], fds)
                answer = frames.receive(self._sock)
            except (frames.Closed, TimeoutError, OSError) as error:
                if self._closed:
                    raise frames.Closed from None
                said = last_words(self._errors)
                self.close()
                slow = "does not answer" if isinstance(error, TimeoutError) else "ended unexpectedly"
                raise SandboxError(f"the box {slow}{': ' + said if said else ''}") from None
            except NO_MESSAGE:
                self.close()
                raise SandboxError(NO_ANSWER) from None
            except BaseException:
                self.close()
                raise
        if "error" in answer.head:
            raise SandboxError(f"in the box: {answer.head['error']}")
        return answer


def last_words(fd: int) -> str:
    """The last line that bubblewrap or the supervisor wrote before it ended."""
    lines = os.pread(fd, 1 << 16, 0).decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip()[:300] if lines else ""


@contextlib.contextmanager
def _sealed(contents: list[bytes]) -> Iterator[list[int]]:
    """Each content as a descriptor at its start. The child alone reads it."""
    fds = []
    try:
        for data in contents:
            fd = os.memfd_create("job")
            fds.append(fd)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            os.lseek(fd, 0, os.SEEK_SET)
        yield fds
    finally:
        for fd in fds:
            os.close(fd)


def _end(sock: socket.socket, pidfd: int, errors: int, owner: int) -> None:
    """Kill the box's first process and wait until the kernel has ended all others. A forked copy of the process
    that opened the box only lets go of it."""
    if os.getpid() == owner:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for an answer
        select.select([pidfd], [], [], 5)
    sock.close()
    os.close(pidfd)
    os.close(errors)
