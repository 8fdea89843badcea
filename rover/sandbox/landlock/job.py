"""One job of a box without namespaces, and the watch over it."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rover.sandbox.inside.processes import send
from rover.sandbox.inside.watch import Watch
from rover.sandbox.landlock import processes
from rover.sandbox.landlock.notices import Listener
from rover.sandbox.landlock.workspace import Pace, usage

if TYPE_CHECKING:
    from rover.sandbox.landlock.supervisor import LandlockSupervisor


@dataclass(slots=True)
class Job:
    """Its first process, what the supervisor's children had used before, the questions of its filter, what it said
    when it was confined: `ok`, or what went wrong."""

    pid: int
    pidfd: int
    before: resource.struct_rusage
    listener: Listener | None
    said: bytes
    tmp: str

    def close(self) -> None:
        os.close(self.pidfd)
        if self.listener is not None:
            self.listener.close()


class Served(Watch):
    """Beside what every watch does it answers questions and measures the folders: no kernel bounds those here."""

    def __init__(self, job: Job, pipes: list[int], limits: dict[str, Any], box: LandlockSupervisor, wake: bool) -> None:
        super().__init__(job.pidfd, pipes, limits, box.ours(), box.hangup(), wake=wake)
        self._box = box
        self._job = job
        self._pace = Pace()
        if job.listener is not None:
            self.also[job.listener.fd] = job.listener.answer

    def kill(self, breach: str) -> None:
        self.breach = self.breach or breach
        for pid in processes.hold(self._box.ours(), self._box.warm()):
            send(pid, signal.SIGKILL)

    def members(self) -> list[int]:
        return processes.members(self._box.ours(), self._box.warm())

    def hung_up(self) -> None:
        self._box.quit()

    def measure(self) -> None:
        super().measure()
        if self.breach is None and self._pace.due():
            started = time.monotonic()
            with contextlib.suppress(OSError):
                beside = usage(self._job.tmp, int(self._limits["inodes"]))
                over = beside[1] > int(self._limits["inodes"])
                if over or not self._box.fits(beside[0] + deleted(self.members())):
                    self.kill("disk")
            self._pace.done(started)


def deleted(members: list[int]) -> int:
    """Bytes of files that processes hold open though they have no name any more."""
    found: dict[tuple[int, int], int] = {}
    for pid in members:
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    info = os.stat(f"/proc/{pid}/fd/{fd}")
                    if stat.S_ISREG(info.st_mode) and info.st_nlink == 0:
                        found[info.st_dev, info.st_ino] = info.st_blocks * 512
    return sum(found.values())
