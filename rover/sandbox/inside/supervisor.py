"""The one process that lives as long as its box: lays out the workspace, starts commands and calls, watches them.

It holds capabilities in the box's own user namespace, for mounts and for files of mode 000; what it starts holds
none. It is spoken to over one socket, and when that closes the box ends. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import sys
from collections.abc import Iterator
from typing import Any

from rover.sandbox.inside import frames, kernel
from rover.sandbox.inside.command import become_command
from rover.sandbox.inside.confine import PRIVATE, ROVER, Powers, fork_in_pid_namespace
from rover.sandbox.inside.live import Live, ended, hold, release, with_streams
from rover.sandbox.inside.pipes import Pipes
from rover.sandbox.inside.watch import Watch, processor_time
from rover.sandbox.inside.workspace import Workspace


class Supervisor:
    """The state of one box."""

    def __init__(self, sock: socket.socket, config: dict[str, Any]) -> None:
        self._sock = sock
        self._config = config
        self._zygotes: dict[str, tuple[socket.socket, int]] = {}
        self._powers = Powers()
        self._ours = {os.getpid()}  # this process and the warm ones
        self._live: Live | None = None
        self._held: set[int] = set()  # processes that stand still while a request is served
        self._null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        raise_file_limit()
        os.chdir("/")
        kernel.mount("tmpfs", PRIVATE, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=700,nr_inodes=0")
        _finish_root(config)
        self._work = Workspace(config["workspace"])

    def serve(self) -> None:
        """Greet the host, then answer requests for ever."""
        self.greet()
        while True:
            self._wait()
            request = frames.receive(self._sock)
            try:
                with self._still():
                    head, body = getattr(self, f"do_{request.head['do']}")(request)
            except OSError as error:
                head, body = {"error": f"{request.head['do']}: {error}"}, []
            finally:
                for fd in request.fds:
                    os.close(fd)
            frames.send(self._sock, head, body)

    def greet(self) -> None:
        """Send the host a handle on this box."""
        frames.send(self._sock, {"workspace": self._work.mode}, fds=[os.pidfd_open(os.getpid())])

    def _wait(self) -> None:
        """Where a command lives, watch it until a request comes."""
        while self._live is not None:
            if self._live.watch.ended():
                self._live.finish()
                self._live = None
            elif self._live.watch.asked:
                return

    @contextlib.contextmanager
    def _still(self) -> Iterator[None]:
        """Hold the living command's processes still for the time of a request."""
        found = hold(self._ours) if self._live is not None else {}
        self._held = set(found)
        try:
            yield
        finally:
            held, self._held = self._held, set()
            release(pid for pid in held if found[pid])

    def do_missing(self, request: frames.Message) -> tuple[dict[str, Any], list[bytes]]:
        return {"missing": self._work.missing(request.head["files"])}, []

    def do_start(self, request: frames.Message) -> tuple[dict[str, Any], list[bytes]]:
        self._cancel()
        rest = memoryview(request.body)
        for blob, size in request.head["blobs"]:
            self._work.put(blob, rest[:size])
            rest = rest[size:]
        self._work.lay_out(request.head["files"])
        return self.do_reset(request)

    def do_reset(self, request: frames.Message) -> tuple[dict[str, Any], list[bytes]]:
        self._cancel()
        self._work.reset(request.head.get("disk_bytes"), request.head.get("inodes"))
        return {}, []

    def do_snapshot(self, request: frames.Message) -> tuple[dict[str, Any], list[bytes]]:
        changes = self._work.snapshot()
        new = [[blob, len(data)] for blob, data in changes.new.items()]
        head = {"entries": changes.entries, "removed": list(changes.removed), "new": new, "refused": changes.refused}
        return head, list(changes.new.values())

    def do_run(self, request: frames.Message) -> tuple[dict[str, Any], list[bytes]]:
        """Run a command; the only descriptor is its stdin. A live one has two more: its channel, and a socket for
        the answer, which comes there when it has ended."""
        limits = self._limits(request.head["limits"])
        with Pipes(3) as pipes:
            channel = request.fds[-2:-1] if request.head.get("live") else []
            stdin = request.fds[0] if len(request.fds) % 2 else self._null
            pid, pidfd = fork_in_pid_namespace()
            if pid == 0:
                out, err, report = pipes.ends
                become_command(
                    self._powers, request.head, limits, self._config["hide"], (stdin, out, err, *channel, report)
                )
            pipes.close_ends()
            if channel:
                watch = Watch(pidfd, pipes.own[:2], limits, self._ours, self._sock.fileno(), wake=True)
                watch.begin()
                self._live = Live(pid, pidfd, watch, pipes.keep(), os.dup(request.fds[-1]))
                return {}, []
            watch = self._watch(pidfd, pipes.own[:2], limits)
            os.waitpid(pid, 0)
            return ended(os.read(pipes.own[2], 4096), watch)

    def _cancel(self) -> None:
        """End the living command: its workspace goes."""
        if self._live is not None:
            self._live.cancel()
            self._live = None

    def do_call(self, request: frames.Message) -> tuple[dict[str, Any], list[bytes]]:
        """Fork a call from a warm process. Descriptors: the job, the result."""
        kind = str(request.head["kind"])
        limits = self._limits(request.head["limits"])
        with Pipes(2) as pipes:
            try:
                zygote = self._zygote(kind)
                job = {"limits": limits, "warm": request.head["warm"]}
                frames.send(zygote, job, fds=[*request.fds, *pipes.ends])
                answer = frames.receive(zygote)
                if "error" in answer.head:
                    return answer.head, []
                pipes.close_ends()
                watch = self._watch(answer.fds[0], pipes.own, limits)
                frames.send(zygote, {"reap": answer.head["pid"]})
                status = frames.receive(zygote).head["status"]
            except frames.Closed:
                sock, pid = self._zygotes.pop(kind)
                sock.close()
                self._ours.discard(pid)
                return {"error": "the warm process died"}, []
        return with_streams({"status": status, "breach": watch.breach}, watch)

    def do_warm(self, request: frames.Message) -> tuple[dict[str, Any], list[bytes]]:
        """Start a warm process ahead of its first call."""
        self._zygote(str(request.head["kind"]))
        return {}, []

    def do_usage(self, request: frames.Message) -> tuple[dict[str, Any], list[bytes]]:
        """Of this process, the warm ones and all that has ended: processor time in seconds; descriptors open."""
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        total = sum(u.ru_utime + u.ru_stime for u in used)
        for _, pid in self._zygotes.values():
            total += processor_time(pid)
        fds = [len(os.listdir(f"/proc/{pid}/fd")) for pid in ("self", *(pid for _, pid in self._zygotes.values()))]
        return {"cpu_s": total, "descriptors": sum(fds)}, []

    def _watch(self, pidfd: int, pipes: list[int], limits: dict[str, Any]) -> Watch:
        watch = Watch(pidfd, pipes, limits, self._ours | self._held, self._sock.fileno())
        try:
            watch.wait()
        finally:
            os.close(pidfd)
        return watch

    def _limits(self, limits: dict[str, Any]) -> dict[str, Any]:
        """The kernel counts the box's own processes too."""
        return {**limits, "processes": int(limits["processes"]) + 2 + len(self._zygotes) + len(self._held)}

    def _zygote(self, kind: str) -> socket.socket:
        if kind not in self._zygotes:
            near, far = socket.socketpair()
            code = f"import sys; sys.path[:0] = {[ROVER]!r}; sys.path += {self._config['site']!r}; "
            code += "from rover.sandbox.inside.zygote import main; main()"
            argv = [self._config["python"], "-s", "-S", "-P", "-c", code, str(far.fileno())]
            far.set_inheritable(True)
            pid = os.posix_spawn(argv[0], argv, self._config["env"])
            far.close()
            self._zygotes[kind] = (near, pid)
            self._ours.add(pid)
        return self._zygotes[kind][0]


def _finish_root(config: dict[str, Any]) -> None:
    """Write the few files and links that the box has of its own, then make its root read-only."""
    for path, text in config["files"].items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as stream:
            stream.write(text)
    for path, target in [*config["links"].items(), *config.get("place", ())]:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(target, path)
    flags = kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV
    for folder in ("/tmp", "/dev", "/"):
        kernel.mount("none", folder, flags=flags)


def raise_file_limit() -> None:
    """A snapshot of a deep workspace holds one descriptor a level."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096) if hard > 0 else 4096, hard))


def main() -> None:
    """`main` of the box. Its argument is the socket; the first message there is the configuration, which would
    be seen by every command if it were an argument too."""
    sock = socket.socket(fileno=int(sys.argv[1]))
    sock.set_inheritable(False)
    try:
        Supervisor(sock, frames.receive(sock).head).serve()
    except frames.Closed:
        os._exit(0)
