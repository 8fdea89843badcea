"""The host's side of one box: a container, replaced where the box is to be of another size."""

from __future__ import annotations

import json
import os
import socket
import threading
import weakref
from collections.abc import Mapping
from typing import Any

from rover.sandbox.answers import NO_ANSWER, Answering, completed, manifest, returned
from rover.sandbox.box import PATIENCE
from rover.sandbox.docker.conversation import Conversation
from rover.sandbox.docker.engine import Engine, Started
from rover.sandbox.docker.inside.host import code
from rover.sandbox.docker.inside.wire import Closed, Garbled, Message
from rover.sandbox.docker.layout import Layout, Shape
from rover.sandbox.docker.stream import Stream
from rover.sandbox.protocol import CallResult, Completed, Entry, Files
from rover.sandbox.warm import kind, warm
from rover_store.errors import SandboxError
from rover_store.records import Limits

#: Seconds that a container may take to say that it runs, and to end.
START_S, END_S = 60.0, 5.0
#: Bytes of the longest link, and of an answer beyond what is counted.
LINK_BYTES, SLACK = 4096, 1 << 20


class DockerSandbox(Answering):
    """One living box. One request at a time; `close` may be called from any thread and ends a running job.

    The file system of its workspace has a fixed size, so a reset to other limits, or to a start state of another
    order of magnitude, takes another container.
    """

    def __init__(self, engine: Engine, image: str, layout: Layout, limits: Limits, env: Mapping[str, str]) -> None:
        self._engine, self._image, self._layout = engine, image, layout
        self._limits = limits
        self._env = dict(env)
        self._container: Container | None = None
        self._closed = False
        self._start: dict[str, Entry] | None = None  # None: nothing is laid out
        self._files: Files = {}  # of the start, for another container

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
        variables = {**self._env, **(env or {}), **({} if channel is None else {"ROVER_CHANNEL": "3"})}
        head = {"do": "run", "argv": argv, "env": variables, "limits": limits.model_dump()}
        container = self._living()
        try:
            container.expect(limits)
            container.allow(limits.processes)
            if channel is None:
                answer = container.ask(head, [stdin], limits.wall_s)
            else:
                answer = container.live({**head, "live": True}, stdin, channel, limits.wall_s)
        except Closed:
            return Completed(None, b"", b"", "cancelled")
        with self._reading():
            return completed(answer)

    def call(self, entry: str, payload: Any, *, limits: Limits | None = None) -> CallResult:
        limits = limits or self._limits
        modules = warm(entry.partition(":")[0], self._start or ())
        head = {"do": "call", "warm": modules, "kind": kind(modules), "limits": limits.model_dump()}
        job = json.dumps({"entry": entry, "payload": payload}).encode()
        container = self._living()
        try:
            container.expect(limits)
            container.allow(limits.processes, kind(modules))
            answer = container.ask(head, [job], limits.wall_s)
        except Closed:
            return CallResult(error="cancelled", breach="cancelled")
        with self._reading():
            said, body = answer.head, answer.body
            out, err = said["stdout"], said["stdout"] + said["stderr"]
            return returned(said, body[:out], body[out:err], body[err:])

    def reset(self, files: Files | None = None, *, limits: Limits | None = None) -> None:
        if self._closed:
            raise SandboxError("the box is closed")
        self._limits = limits or self._limits
        start = self._start if files is None else manifest(files)
        if start is None:
            raise SandboxError("the box has no start state: the last one could not be laid out")
        shape = Shape.of(self._limits, {path: entry.size for path, entry in start.items()})
        fresh = self._container is None or self._container.shape != shape
        if fresh:
            self._replace(shape)
        bounds = {"disk_bytes": shape.disk, "room": shape.room}
        if not fresh and (files is None or start == self._start):
            self._request({"do": "reset", **bounds})
            return
        files = self._files if files is None else files
        self._lay_out(files, start, bounds)
        self._files = files

    def prepare(self, modules: tuple[str, ...] = ()) -> None:
        """Start the process that calls are forked from, so that the first call finds it."""
        self._living().allow(self._limits.processes, kind(modules))
        super().prepare(modules)

    def execute(self, argv: list[str]) -> int:
        """Run a command by the engine's own way into a container, for comparison: nothing of it is recorded."""
        return self._living().execute(argv)

    def close(self) -> None:
        self._closed = True
        if self._container is not None:
            self._container.close()

    def _replace(self, shape: Shape) -> None:
        if self._container is not None:
            self._container.close()
        self._container = Container(self._engine, self._image, self._layout, shape, self._limits.processes)
        if self._closed:
            self._container.close()

    def _living(self) -> Container:
        if self._closed or self._container is None:
            raise SandboxError("the box is closed")
        return self._container

    def _request(self, head: dict[str, Any], parts: list[bytes] | None = None) -> Message:
        try:
            return self._living().ask(head, parts or [], 0)
        except Closed:
            raise SandboxError(f"{head['do']}: the box was closed meanwhile") from None


class Container:
    """One container and the conversation with its first process. Whatever breaks that off ends the container."""

    def __init__(self, engine: Engine, image: str, layout: Layout, shape: Shape, processes: int) -> None:
        self.shape = shape
        self._engine = engine
        self._warm: set[str] = set()  # warm processes that were asked for
        self._allowed = _own(processes, 0)
        self._closed = False
        self._allowing = threading.Lock()
        started = engine.start(image, layout, shape, self._allowed)
        self._id, self._talk = started.id, Conversation(started.stream)
        self._stream = started.stream
        self._stream.most = _snapshot_size(shape)
        self._end = weakref.finalize(self, _end, engine, started, self._talk, os.getpid())
        try:
            started.stream.send(layout.config, [], START_S)
            hello = started.stream.receive(START_S).head
        except Garbled:
            self.close()
            raise SandboxError(NO_ANSWER) from None
        except (Closed, TimeoutError):
            said = started.stream.last_words() or "it did not start"
            self.close()
            raise SandboxError(f"the container ended at once: {said}") from None
        except BaseException:
            self.close()
            raise
        if hello.get("code") != code(shown=bool(layout.config["rover"])):
            self.close()
            raise SandboxError(
                "the rover in the container is another one than this one",
                hint="name an image that carries this version: ROVER_DOCKER_IMAGE=...",
            )

    def ask(self, head: dict[str, Any], parts: list[bytes], seconds: float) -> Message:
        """One exchange; Closed where another thread closed the box meanwhile."""
        return self._checked(lambda: self._talk.ask(head, parts, seconds + PATIENCE))

    def live(self, head: dict[str, Any], stdin: bytes, channel: socket.socket, seconds: float) -> Message:
        return self._checked(lambda: self._talk.live(head, stdin, channel, seconds + PATIENCE))

    def expect(self, limits: Limits) -> None:
        """Of how many bytes an answer may be from now on: of a snapshot, or of what these limits leave a job."""
        job = limits.output_bytes + max(limits.file_bytes, 1 << 20) + SLACK
        self._stream.most = max(self._stream.most, job)

    def allow(self, processes: int, kind: str = "") -> None:
        """See to it that a job can have so many processes and no more: rover's own in the container count too."""
        with self._allowing:
            self._warm |= {kind} if kind else set()
            if (need := _own(processes, len(self._warm))) != self._allowed:
                self._engine.allow_processes(self._id, need)
                self._allowed = need

    def execute(self, argv: list[str]) -> int:
        return self._engine.execute(self._id, argv)

    def close(self) -> None:
        self._closed = True
        self._end()

    def _checked(self, exchange: Any) -> Message:
        if self._closed:
            raise SandboxError("the box is closed")
        try:
            answer: Message = exchange()
        except (Closed, TimeoutError, OSError) as error:
            if self._closed:
                raise Closed from None
            said = self._talk.stream.last_words()
            self.close()
            if isinstance(error, Garbled):
                raise SandboxError(NO_ANSWER) from None
            slow = "does not answer" if isinstance(error, TimeoutError) else "ended unexpectedly"
            raise SandboxError(f"the box {slow}{': ' + said if said else ''}") from None
        except BaseException:
            self.close()
            raise
        if "error" in answer.head:
            raise SandboxError(f"in the box: {answer.head['error']}")
        return answer


def _snapshot_size(shape: Shape) -> int:
    """The most that a snapshot may be: the bytes of all files, and of links, which take no room of a file system."""
    return shape.disk + shape.room + LINK_BYTES * (shape.inodes + shape.files) + SLACK


def _own(processes: int, warm: int) -> int:
    return processes + 1 + warm


def _end(engine: Engine, started: Started, talk: Conversation, owner: int) -> None:
    """Hang up, which ends the container, and wait until it has. A forked copy of the process that started it only
    lets go of it."""
    stream: Stream = started.stream
    if os.getpid() == owner:
        stream.hang_up()
        if not talk.wait_until_unread(END_S) or not stream.drain(END_S):
            engine.remove(started.id)
    stream.close()
