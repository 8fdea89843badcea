"""Confinement in a container, whose first process may make no namespaces: by user, by signals to all, by a filter.

Commands and calls run as one ordinary user that owns nothing of the box but the workspace. The supervisor is root
of the container, and the container's first process: signals do not reach it, its memory and descriptors are closed
to that user, and what a job leaves behind becomes its child. A job ends by one kill of everything that the user
runs: the kernel delivers it to all processes at once, also to those that are just being forked.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Iterator
from typing import Any

from rover.sandbox.inside import kernel
from rover.sandbox.inside.confine import WORK, Powers, limit
from rover.sandbox.inside.processes import send

#: User and group of commands and calls.
AGENT = 1000
#: Real user of the supervisor while it acts as that user: no process of the user may signal it then.
SENDER = 1001
#: A group of calls alone: rover's own code is open to it, and to no command.
CALLS = 1002
#: Seconds after which a process that neither stops nor dies is an error of the box.
PATIENCE_S = 10.0


@contextlib.contextmanager
def as_agent() -> Iterator[None]:
    """Act with the powers of the user that jobs run as, and no others."""
    os.setresgid(0, AGENT, 0)
    os.setresuid(SENDER, AGENT, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)


def confine(powers: Powers, limits: dict[str, Any], groups: list[int]) -> None:
    """Confine this process, a fork of the supervisor or of a warm process. Raises OSError; the caller must then end.

    How many processes there may be is the container's own limit: the kernel would count them a user, and the same
    user may run things elsewhere on the machine.
    """
    os.setsid()
    os.umask(0o022)
    os.chdir(WORK)
    limit({**limits, "processes": 1 << 22})
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for capability in powers.held:
        kernel.prctl(kernel.PR_CAPBSET_DROP, capability)
    os.setgroups(groups)
    os.setresgid(AGENT, AGENT, AGENT)
    os.setresuid(AGENT, AGENT, AGENT)
    kernel.drop_capabilities([])
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # so that the supervisor, as this user, can see how much memory is its own
    kernel.install_filter(powers.filter)


class Processes:
    """The processes of the box: `ours` are the supervisor and the warm ones, `held` stand still for a while."""

    def __init__(self) -> None:
        self.ours = {os.getpid()}
        self.held: set[int] = set()
        self._asleep: set[int] = set()  # of the held, those that had been stopped before
        self.awaited: set[int] = set()  # children whose status somebody will ask for
        self._statuses: dict[int, int] = {}
        self.cpu_s = 0.0  # of everything that was reaped

    def members(self) -> list[int]:
        """All but ours and the held ones, also dead ones that nobody has waited for."""
        return [int(n) for n in os.listdir("/proc") if n.isdigit() and int(n) not in self.ours | self.held]

    def reap(self) -> None:
        """Take note of children that are dead: their status, their processor time."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self.awaited:
                self._statuses[pid] = status
            self.cpu_s += used.ru_utime + used.ru_stime

    def status(self, pid: int) -> int:
        """How an awaited child ended; it is dead."""
        self.awaited.discard(pid)
        return self._statuses.pop(pid)

    def kill(self) -> None:
        """Kill all members, at once."""
        with as_agent():
            if not self.held:
                send(-1, signal.SIGKILL)
                return
            send(-1, signal.SIGSTOP)  # nothing forks from here on
            for pid in self.members():
                send(pid, signal.SIGKILL)

    def sweep(self) -> None:
        """Kill all members and wait until none is left."""
        end = time.monotonic() + PATIENCE_S
        while True:
            self.reap()
            if not self.members():
                return
            self.kill()
            if time.monotonic() > end:
                raise OSError("a process does not die")
            time.sleep(0.0003)

    def hold(self) -> None:
        """Stop all members; they are held until `release`. OSError where one goes on."""
        before = self.members()
        self._asleep = {pid for pid in before if _states(pid) <= {b"T"}}
        end = time.monotonic() + PATIENCE_S
        while True:
            with as_agent():
                send(-1, signal.SIGSTOP)  # again: a command that is just being started becomes that user only then
            members = self.members()
            if not any(_states(pid) & {b"R", b"S"} for pid in members):
                self.held = set(members)
                return
            if time.monotonic() > end:
                self.held = set(members)
                self.release()
                raise OSError("a process does not stop")
            time.sleep(0.0003)

    def release(self) -> None:
        held, self.held = self.held, set()
        with as_agent():
            for pid in held - self._asleep:
                send(pid, signal.SIGCONT)


def _states(pid: int) -> set[bytes]:
    """The states of a process's threads."""
    found = set()
    with contextlib.suppress(OSError, IndexError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/stat", "rb") as stream:
                found.add(stream.read(512).rpartition(b")")[2].split()[0])
    return found


def processor_time() -> float:
    """Seconds that this process and all that it has waited for have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)
