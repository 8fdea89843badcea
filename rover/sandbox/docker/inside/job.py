"""Watching one job in a container: as `watch.Watch`, but its end is the supervisor's to make, not the kernel's."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import Any

from rover.sandbox.docker.inside.channel import Channel
from rover.sandbox.docker.inside.jail import Processes, as_agent
from rover.sandbox.inside.watch import TICK, Watch

_PAGE = os.sysconf("SC_PAGE_SIZE")
_CLOCK = os.sysconf("SC_CLK_TCK")
HOST = 0  # the supervisor's standard input


class Job(Watch):
    """One job. `woken` is readable when a child of the supervisor has died; a living command has a `channel`."""

    def __init__(
        self,
        processes: Processes,
        pidfd: int,
        pipes: list[int],
        limits: dict[str, Any],
        woken: int,
        channel: Channel | None,
    ) -> None:
        super().__init__(pidfd, pipes, limits, processes.ours, HOST, channel is not None)
        self._processes = processes
        self._woken = woken
        self._channel = channel
        self._before = processes.cpu_s

    def begin(self) -> None:
        super().begin()
        self._poll.register(self._woken, select.POLLIN)

    def ended(self) -> bool:
        """Wait for one event, at most a tick: True once the first process is dead. A sweep and `finish` follow."""
        if not self._started:
            self.begin()
        now = time.monotonic()
        if now >= self._end:
            self.kill("wall")
        elif now >= self._tick:
            self.measure()
            self._tick = now + TICK
        self._attend()
        pause = TICK if self.breach else max(0.0, min(self._end, self._tick) - now)
        events = dict(self._poll.poll(pause * 1000 + 0.5))
        if self._woken in events:
            os.read(self._woken, 4096)
            self._processes.reap()
        self.asked = self._hangup in events
        if events.get(self._hangup, 0) & ~select.POLLIN:
            os._exit(0)  # and with the container's first process all others end
        for fd in self._pipes:
            if fd in events and self._drain(fd) == 0:
                self._poll.unregister(fd)
        return self._pidfd in events

    def finish(self) -> None:
        """Read what is left in the streams: nobody writes to them any more."""
        self.wall_s = time.monotonic() - self._started
        for fd in self._pipes:
            while self._drain(fd) > 0:
                pass
        self.cpu_s = max(self.cpu_s if self.breach else 0.0, self._processes.cpu_s - self._before)

    def spare(self, cpu_s: float) -> None:
        """Do not count this: another job used it meanwhile."""
        self._before += cpu_s

    def kill(self, breach: str) -> None:
        self.breach = self.breach or breach
        self._processes.kill()

    def members(self) -> list[int]:
        return self._processes.members()

    def measure(self) -> None:
        """Sum memory and CPU over the job's processes, and CPU over those that are gone; end it where it is over."""
        resident, ticks, members = 0, 0, self.members()
        for pid in members:
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as stream:
                fields = stream.read().rpartition(b")")[2].split()
                resident += int(fields[21]) * _PAGE
                ticks += sum(map(int, fields[11:15]))
        self.cpu_s = max(self.cpu_s, ticks / _CLOCK + self._processes.cpu_s - self._before)
        if self.cpu_s > float(self._limits["cpu_s"]):
            self.kill("cpu")
        most = int(self._limits["memory_bytes"])
        if resident > most and self._own(members) > most:
            self.kill("memory")

    def _own(self, members: list[Any]) -> int:
        """Their user may look at them; the supervisor's own may not, which has no power over other users' memory."""
        with as_agent():
            return super()._own(members)

    def _attend(self) -> None:
        if self._channel is not None:
            if events := self._channel.events():
                self._poll.register(self._channel.near, events)
            else:
                with contextlib.suppress(KeyError):
                    self._poll.unregister(self._channel.near)


def children_woken() -> int:
    """A descriptor that is readable once a child has died."""
    near, far = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(far, warn_on_full_buffer=False)
    return near
