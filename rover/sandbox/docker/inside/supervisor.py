"""The container's first process: lays out the workspace, starts commands and calls, watches and ends them.

It is root of the container with the few powers that this takes; what it starts has none. It is spoken to over its
standard streams, and when they close the container ends. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import sys
from collections.abc import Callable
from typing import Any

from rover.sandbox.docker.inside import wire
from rover.sandbox.docker.inside.channel import Channel
from rover.sandbox.docker.inside.command import become_command
from rover.sandbox.docker.inside.content import Content
from rover.sandbox.docker.inside.host import code, read, write
from rover.sandbox.docker.inside.jail import AGENT, Processes, processor_time
from rover.sandbox.docker.inside.job import Job, children_woken
from rover.sandbox.docker.inside.live import Answer, Live, ended, with_streams
from rover.sandbox.docker.inside.scratch import Scratch
from rover.sandbox.docker.inside.tracker import in_flight
from rover.sandbox.docker.inside.workspace import Workspace
from rover.sandbox.inside import frames
from rover.sandbox.inside.confine import Powers
from rover.sandbox.inside.pipes import Pipes
from rover.sandbox.inside.watch import processor_time as processor_time_of

#: Devices that nobody needs.
SPARE = ("/dev/tty", "/dev/ptmx", "/dev/core", "/dev/console")


class Supervisor:
    """The state of one box."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self._zygotes: dict[str, tuple[socket.socket, int]] = {}
        self._powers = Powers()
        self._processes = Processes()
        self._scratch = Scratch()
        self._woken = children_woken()
        self._live: Live | None = None
        self._null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        for path in SPARE:
            with contextlib.suppress(OSError):
                os.unlink(path)
        self._work = Workspace(lambda: in_flight(2 * len(self._zygotes)))

    def serve(self) -> None:
        """Greet the host by what this code is, then answer requests for ever."""
        write({"code": code(shown=bool(self._config["rover"]))}, [])
        while True:
            self._wait()
            request = wire.unpack(read)
            if request.head["do"] == "channel":
                if self._live is not None:
                    self._live.channel.take(request)
                continue
            try:
                head, body = self._answer(request)
            except OSError as error:
                head, body = {"error": f"{request.head['do']}: {error}"}, []
            write(head, body)

    def _answer(self, request: wire.Message) -> Answer:
        """Serve one request; a living command stands still meanwhile, and its scratch files are out of sight."""
        do: Callable[[wire.Message], Answer] = getattr(self, f"do_{request.head['do']}")
        if (live := self._live) is None:
            return do(request)
        self._processes.hold()
        self._scratch.hide()
        before = self._processes.cpu_s
        try:
            return do(request)
        finally:
            if self._live is live:
                live.job.spare(self._processes.cpu_s - before)
                self._scratch.show()
            self._work.settle()
            self._processes.release()

    def _wait(self) -> None:
        """Where a command lives, watch it until a request comes."""
        while (live := self._live) is not None:
            if live.job.ended():
                self._live = None
                self._processes.sweep()
                self._scratch.empty()
                live.finish(self._processes)
            else:
                live.channel.pump()
                if live.job.asked:
                    return

    # --- workspace -----------------------------------------------------------------------------------------
    def do_missing(self, request: wire.Message) -> Answer:
        return {"missing": self._work.missing(request.head["files"])}, []

    def do_start(self, request: wire.Message) -> Answer:
        self._cancel()
        rest = memoryview(request.body)
        for blob, size in request.head["blobs"]:
            self._work.put(blob, rest[:size])
            rest = rest[size:]
        self._work.lay_out(request.head["files"])
        return self.do_reset(request)

    def do_reset(self, request: wire.Message) -> Answer:
        self._cancel()
        self._work.reset(request.head["disk_bytes"], request.head["room"])
        return {}, []

    def do_snapshot(self, request: wire.Message) -> Answer:
        changes = self._work.snapshot(self._live is not None)
        new = [[blob, len(data)] for blob, data in changes.new.items()]
        head = {"entries": changes.entries, "removed": list(changes.removed), "new": new, "refused": changes.refused}
        return head, list(changes.new.values())

    # --- commands ------------------------------------------------------------------------------------------
    def do_run(self, request: wire.Message) -> Answer:
        """Run a command. The body is what it reads. A live one is answered at once, and tells later how it ended."""
        live = bool(request.head.get("live"))
        self._work.settle()
        if live:
            self._work.tell_openings()
        with contextlib.ExitStack() as stack:
            pipes = stack.enter_context(Pipes(3, AGENT))
            stdin = stack.enter_context(Content(request.body)).fd if request.body else self._null
            channel = Channel(write) if live else None
            pid = os.fork()
            if pid == 0:
                out, err, report = pipes.ends
                more = [channel.far.fileno()] if channel else []
                become_command(self._powers, request.head, (stdin, out, err, *more, report))
            pipes.close_ends()
            pidfd = os.pidfd_open(pid)
            self._processes.awaited.add(pid)
            job = self._job(pidfd, pipes.own[:2], request.head["limits"], channel)
            if channel is not None:
                channel.far.close()
                job.begin()
                self._live = Live(pid, pidfd, job, channel, pipes.keep())
                return {}, []
            try:
                job.wait()
            finally:
                os.close(pidfd)
            self._processes.sweep()
            job.finish()
            self._scratch.empty()
            return ended(os.read(pipes.own[2], 4096), self._processes.status(pid), job)

    def _cancel(self) -> None:
        """End the living command: its workspace goes."""
        if (live := self._live) is not None:
            self._live = None
            self._processes.held = set()
            live.job.kill("cancelled")
            self._processes.sweep()
            self._scratch.show()
            self._scratch.empty()
            live.finish(self._processes)

    def _job(self, pidfd: int, pipes: list[int], limits: dict[str, Any], channel: Channel | None = None) -> Job:
        return Job(self._processes, pidfd, pipes, limits, self._woken, channel)

    # --- calls ---------------------------------------------------------------------------------------------
    def do_call(self, request: wire.Message) -> Answer:
        """Fork a call from a warm process. The body is the job; the answer's last part is the result."""
        kind = str(request.head["kind"])
        self._work.settle()
        with Pipes(2, AGENT) as pipes, Content(request.body) as job, Content() as result:
            try:
                zygote = self._zygote(kind)
                head = {"limits": request.head["limits"], "warm": request.head["warm"]}
                frames.send(zygote, head, fds=[job.fd, result.fd, *pipes.ends])
                answer = frames.receive(zygote)
                if "error" in answer.head:
                    return answer.head, []
                pipes.close_ends()
                watch = self._job(answer.fds[0], pipes.own, request.head["limits"])
                try:
                    watch.wait()
                finally:
                    os.close(answer.fds[0])
                self._processes.kill()
                frames.send(zygote, {"reap": answer.head["pid"]})
                status = frames.receive(zygote).head["status"]
                self._processes.sweep()
            except frames.Closed:
                sock, pid = self._zygotes.pop(kind)
                sock.close()
                self._processes.ours.discard(pid)
                self._processes.sweep()
                self._scratch.empty()
                return {"error": "the warm process died"}, []
            watch.finish()
            self._scratch.empty()
            said, body = with_streams({"status": status, "breach": watch.breach}, watch)
            text = result.read(max(int(request.head["limits"]["file_bytes"]), 1 << 20) + 1)
            return {**said, "result": len(text)}, [*body, text]

    def do_warm(self, request: wire.Message) -> Answer:
        """Start a warm process ahead of its first call."""
        self._zygote(str(request.head["kind"]))
        return {}, []

    def do_usage(self, request: wire.Message) -> Answer:
        """Of this process, the warm ones and all that has ended: processor time in seconds; descriptors open."""
        total = processor_time() + sum(processor_time_of(pid) for _, pid in self._zygotes.values())
        return {"cpu_s": total, "descriptors": len(os.listdir("/proc/self/fd"))}, []

    def _zygote(self, kind: str) -> socket.socket:
        if kind not in self._zygotes:
            near, far = socket.socketpair()
            code = "from rover.sandbox.docker.inside.warm import main; main()"
            if rover := self._config["rover"]:
                code = f"import sys; sys.path.insert(0, {rover!r}); {code}"
            argv = [*self._config["python"], "-s", *(["-S"] if rover else []), "-P", "-c", code, str(far.fileno())]
            far.set_inheritable(True)
            quiet = [(os.POSIX_SPAWN_DUP2, self._null, 0), (os.POSIX_SPAWN_DUP2, 2, 1)]
            pid = os.posix_spawnp(argv[0], argv, self._config["env"], file_actions=quiet)
            far.close()
            frames.send(near, {"site": self._config["site"]})
            self._zygotes[kind] = (near, pid)
            self._processes.ours.add(pid)
        return self._zygotes[kind][0]


def main() -> None:
    """`main` of the container. The first message is the configuration: arguments could be seen by every command."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096) if hard > 0 else 4096, hard))
    os.chdir("/")
    sys.dont_write_bytecode = True
    Supervisor(wire.unpack(read).head).serve()
