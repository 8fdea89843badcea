"""The supervisor of one box without namespaces: it forks commands, answers the questions of their filters, watches
them, and ends every process that they leave.

It answers the same requests as the one inside bubblewrap, whose class it extends, but it is not confined itself: it
is a process of the caller's own user, out of reach of what it starts.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
from collections.abc import Iterator
from typing import Any, NoReturn

from rover.sandbox.inside import frames
from rover.sandbox.inside.command import REPORT
from rover.sandbox.inside.confine import execute
from rover.sandbox.inside.entry import one_line
from rover.sandbox.inside.live import ANSWER_S, Live, ended, with_streams
from rover.sandbox.inside.pipes import Pipes
from rover.sandbox.inside.supervisor import Supervisor
from rover.sandbox.inside.watch import Watch
from rover.sandbox.landlock import filter as filters
from rover.sandbox.landlock import folders, metadata, procfs, signals, view
from rover.sandbox.landlock.confine import confine, hand_over
from rover.sandbox.landlock.job import Job, Served
from rover.sandbox.landlock.notices import Listener
from rover.sandbox.landlock.processes import hold, members, release, sweep
from rover.sandbox.landlock.room import Room
from rover.sandbox.landlock.sockets import Sockets
from rover.sandbox.landlock.workspace import Folder

#: temporary folders: of a job, and of one that runs beside a living command
TEMPORARY = ("tmp", "tmp-beside")


class LandlockSupervisor(Supervisor):
    """The state of one box."""

    def __init__(self, sock: socket.socket, folder: str, sources: view.Sources, config: dict[str, Any]) -> None:
        self._sock = sock
        self._folder = folder
        self._level = int(config["level"])
        self._zygotes = {}
        self._ours = {os.getpid()}
        self._live = None
        self._held = set()
        self._null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self._sites = view.make(folder, sources)
        self._python = sources.python
        self._grants = view.grants(folder, sources, tuple(config["shows"]))
        self._program = filters.build(self._level)
        self._names = filters.asked(filters.column(), self._level)
        self._room = Room()
        self._sockets = Sockets(self._inside)
        self._work: Folder = Folder(f"{folder}/w")
        self._env = {**config["env"], **view.environment(folder, self._sites)}

    def greet(self) -> None:
        frames.send(self._sock, {"env": self._env}, fds=[os.pidfd_open(os.getpid())])

    def end(self) -> None:
        """End every process of the box, and remove its folder."""
        for sock, pid in self._zygotes.values():
            sock.close()
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        sweep({os.getpid()})
        folders.remove(self._folder)

    def quit(self) -> NoReturn:
        """End the box, and this process."""
        self.end()
        os._exit(0)

    @contextlib.contextmanager
    def _still(self) -> Iterator[None]:
        found = hold(self._ours, self.warm()) if self._live is not None else {}
        self._held = set(found)
        try:
            yield
        finally:
            held, self._held = self._held, set()
            release(pid for pid in held if found[pid])

    def do_run(self, request: frames.Message) -> tuple[dict[str, Any], list[bytes]]:
        limits = self._limits(request.head["limits"])
        with Pipes(2) as pipes, self._temporary() as tmp:
            channel = request.fds[-2:-1] if request.head.get("live") else []
            stdin = request.fds[0] if len(request.fds) % 2 else self._null
            near, far = socket.socketpair()
            with near:
                with far:
                    before = resource.getrusage(resource.RUSAGE_CHILDREN)
                    pid = os.fork()
                    if pid == 0:
                        self._become(request.head, limits, tmp, (stdin, *pipes.ends, *channel, far.fileno()))
                pipes.close_ends()
                job = self._job(pid, os.pidfd_open(pid), before, near, tmp)
            with contextlib.ExitStack() as stack:
                stack.callback(job.close)
                watch = Served(job, pipes.own, limits, self, wake=bool(channel))
                if channel:
                    watch.begin()
                    self._live = _Live(self, job, watch, pipes.keep(), os.dup(request.fds[-1]))
                    stack.pop_all()
                    return {}, []
                watch.wait()
                return self.finish(job, watch)

    def finish(self, job: Job, watch: Watch) -> tuple[dict[str, Any], list[bytes]]:
        """The answer for a command whose first process has ended; what it left is ended too. The caller closes the
        job."""
        _, status, _ = os.wait4(job.pid, 0)
        self._clear()
        if watch.breach is None and not self.fits(0):
            watch.breach = "disk"  # it was quicker than the measures
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        if job.said != b"ok":
            return ended(job.said, watch)
        user, system = used.ru_utime - job.before.ru_utime, used.ru_stime - job.before.ru_stime
        return ended(REPORT.pack(status, user, system), watch)

    def do_call(self, request: frames.Message) -> tuple[dict[str, Any], list[bytes]]:
        kind = str(request.head["kind"])
        limits = self._limits(request.head["limits"])
        with Pipes(2) as pipes, self._temporary() as tmp:
            near, far = socket.socketpair()
            with near, contextlib.ExitStack() as stack:
                try:
                    with far:
                        zygote = self._zygote(kind)
                        head = {"limits": limits, "warm": request.head["warm"], "tmp": tmp}
                        frames.send(zygote, head, fds=[*request.fds, *pipes.ends, far.fileno()])
                    answer = frames.receive(zygote)
                    if "error" in answer.head:
                        return answer.head, []
                    pipes.close_ends()
                    before = resource.getrusage(resource.RUSAGE_CHILDREN)
                    job = self._job(int(answer.head["pid"]), answer.fds[0], before, near, tmp)
                    stack.callback(job.close)
                    watch = Served(job, pipes.own, limits, self, wake=False)
                    watch.wait()
                    frames.send(zygote, {"reap": job.pid})
                    status = frames.receive(zygote).head["status"]
                    self._clear()
                except frames.Closed:
                    sock, pid = self._zygotes.pop(kind)
                    sock.close()
                    self._ours.discard(pid)
                    self._clear()
                    return {"error": "the warm process died"}, []
        return with_streams({"status": status, "breach": watch.breach}, watch)

    def _clear(self) -> None:
        """End what a job left."""
        sweep(self.ours(), self.warm())
        if self._live is None:
            self._sockets.forget()

    def _become(self, head: dict[str, Any], limits: dict[str, Any], tmp: str, fds: tuple[int, ...]) -> None:
        """In the forked child: take the descriptors from 0 on, confine, and run the command. The last is for the
        report: the listener, or why there is none."""
        report = len(fds) - 1
        try:
            high = [os.dup2(fd, 100 + i, inheritable=False) for i, fd in enumerate(fds)]
            for i, fd in enumerate(high):
                os.dup2(fd, i, inheritable=i < report)
            os.closerange(len(fds), 4096)
            write = (*self._grants.write, tmp)
            listener = confine(limits, self._grants.read, write, self._work.root, self._program, self._level)
            hand_over(report, listener)
            execute(head["argv"], {**head["env"], "HOME": tmp, "TMPDIR": tmp})
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.write(report, one_line(error).encode())
        finally:
            os._exit(99)

    def _job(
        self, pid: int, pidfd: int, before: resource.struct_rusage, near: socket.socket, tmp: str
    ) -> Job:
        """The job of a child, once that is confined: it says `ok` and hands over the listener of its filter, or says
        what went wrong. The caller closes the job; where there is none, `pidfd` is closed."""
        try:
            said, fds, _, _ = socket.recv_fds(near, 4096, 1)
        except BaseException:
            os.close(pidfd)
            raise
        if said == b"ok" and fds:
            return Job(pid, pidfd, before, Listener(fds[0], self._names, self._services()), said, tmp)
        for fd in fds:
            os.close(fd)
        return Job(pid, pidfd, before, None, said or b"it ended before it was confined", tmp)

    def _services(self) -> dict[str, Any]:
        return {
            **metadata.services(self._inside),
            **self._sockets.services(),
            **procfs.services(self._members, self._grants.read),
            **signals.services(self.ours, self.warm),
        }

    def _members(self) -> list[int]:
        return members(self.ours(), self.warm())

    def _inside(self, path: str) -> bool:
        """Whether a real path lies in the workspace or in a temporary folder of the box."""
        own = (self._work.root, *(f"{self._folder}/{name}" for name in TEMPORARY))
        return path in own or path.startswith(tuple(f"{folder}/" for folder in own))

    def ours(self) -> set[int]:
        """Processes that belong to no job that runs now."""
        return self._ours | self._held

    def over(self) -> None:
        """A living command has ended: what was its own goes."""
        self._sockets.forget()
        folders.remove(f"{self._folder}/{TEMPORARY[0]}")

    def let_go(self) -> None:
        """Count the processes that stand still as those of their job again: it is to end."""
        self._held = set()

    def warm(self) -> list[int]:
        return [pid for _, pid in self._zygotes.values()]

    def hangup(self) -> int:
        return self._sock.fileno()

    def fits(self, beside: int) -> bool:
        """Whether the workspace, and these bytes beside it, are within the bounds."""
        return self._work.fits(beside)

    @contextlib.contextmanager
    def _temporary(self) -> Iterator[str]:
        """A folder for this job alone; a job beside a living command has another one than that."""
        beside = self._live is not None
        tmp = f"{self._folder}/{TEMPORARY[beside]}"
        folders.remove(tmp)
        os.mkdir(tmp, 0o700)
        try:
            yield tmp
        finally:
            if self._live is None or beside:
                folders.remove(tmp)

    def _limits(self, limits: dict[str, Any]) -> dict[str, Any]:
        """The kernel counts all processes of the user."""
        return {**limits, "processes": self._room.of_user() + int(limits["processes"])}

    def _zygote(self, kind: str) -> socket.socket:
        if kind not in self._zygotes:
            near, far = socket.socketpair()
            code = f"import sys; sys.path[:0] = [{self._folder + '/r'!r}]; sys.path += {self._sites!r}; "
            code += "from rover.sandbox.landlock.warm import main; main()"
            config = {
                "level": self._level,
                "work": self._work.root,
                "read": (*self._grants.read, *self._grants.code),
                "write": self._grants.write,
            }
            argv = [self._python, "-s", "-S", "-P", "-c", code, str(far.fileno()), json.dumps(config)]
            far.set_inheritable(True)
            with far:
                pid = os.posix_spawn(argv[0], argv, self._env)
            self._zygotes[kind] = (near, pid)
            self._ours.add(pid)
        return self._zygotes[kind][0]


class _Live(Live):
    """A command that lives beside other requests; see rover.sandbox.inside.live."""

    def __init__(self, box: LandlockSupervisor, job: Job, watch: Served, pipes: list[int], answer: int) -> None:
        self.watch = watch
        self._box = box
        self._job = job
        self._pipes = pipes
        self._answer = socket.socket(fileno=answer)

    def finish(self) -> None:
        with contextlib.closing(self._job):
            head, body = self._box.finish(self._job, self.watch)
        self._box.over()
        with contextlib.suppress(frames.Closed, OSError), self._answer:
            self._answer.settimeout(ANSWER_S)
            frames.send(self._answer, head, body)
        for fd in self._pipes:
            os.close(fd)

    def cancel(self) -> None:
        self._box.let_go()
        self.watch.kill("cancelled")
        self.watch.wait()
        self.finish()


