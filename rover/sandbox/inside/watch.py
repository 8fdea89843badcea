"""Watching one running job from outside its namespaces: drain its streams, hold it to its limits, end it.

Time and output are exact. Memory and CPU are polled every 20 ms over all processes of the job: without cgroups
nothing better is to be had, and the guarantee that is missing is named in the runtime's probe.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

TICK = 0.02
_PAGE = os.sysconf("SC_PAGE_SIZE")
_CLOCK = os.sysconf("SC_CLK_TCK")
_CHUNK = 1 << 16


class Watch:
    """One job: `pidfd` of its first process, the read ends of its streams, its limits.

    `ours` are the processes of the box that belong to another job, or to none. `hangup` is the channel to the host:
    where it closes, the box ends. With `wake` a request there ends the wait for an event, and `asked` says so.
    """

    def __init__(
        self, pidfd: int, pipes: list[int], limits: dict[str, Any], ours: set[int], hangup: int, wake: bool = False
    ) -> None:
        self._poll = select.poll()
        self._wake = select.POLLIN if wake else 0
        self._started = self._end = self._tick = 0.0
        self.asked = False
        self.also: dict[int, Callable[[], bool]] = {}  # descriptor -> what to do with it; False: it is done with
        self._pidfd = pidfd
        self._pipes = pipes
        self._limits = limits
        self._ours = ours
        self._hangup = hangup
        self._left = int(limits["output_bytes"])
        self.streams: dict[int, bytearray] = {fd: bytearray() for fd in pipes}
        self.breach: str | None = None
        self.cpu_s = 0.0
        self.wall_s = 0.0

    def wait(self) -> None:
        """Return when the job's first process, and with it every other, is dead and its streams are read."""
        while not self.ended():
            pass

    def begin(self) -> None:
        """Start the clocks and the polling."""
        self._poll.register(self._pidfd, select.POLLIN)
        self._poll.register(self._hangup, self._wake)
        for fd in self._pipes:
            os.set_blocking(fd, False)
        for fd in (*self._pipes, *self.also):
            self._poll.register(fd, select.POLLIN)
        self._started = time.monotonic()
        self._end, self._tick = self._started + float(self._limits["wall_s"]), self._started + TICK

    def ended(self) -> bool:
        """Wait for one event, at most a tick: True once the job is dead and its streams are read."""
        if not self._started:
            self.begin()
        now = time.monotonic()
        if now >= self._end:
            self.kill("wall")
        elif now >= self._tick:
            self.measure()
            self._tick = now + TICK
        pause = TICK if self.breach else max(0.0, min(self._end, self._tick) - now)
        events = dict(self._poll.poll(pause * 1000 + 0.5))
        self.asked = self._hangup in events
        if events.get(self._hangup, 0) & ~select.POLLIN:
            self.hung_up()
        for fd in events.keys() & self.also.keys():
            if not self.also[fd]():
                self._poll.unregister(fd)
                del self.also[fd]
        for fd in self._pipes:
            if fd in events and self._drain(fd) == 0:
                self._poll.unregister(fd)
        if self._pidfd not in events:
            return False
        for fd in self._pipes:
            while self._drain(fd) > 0:
                pass
        self.wall_s = time.monotonic() - self._started
        return True

    def _drain(self, fd: int) -> int:
        """Read a piece: its size, 0 at the end of the stream, -1 where nothing is there yet."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return -1
        self.streams[fd] += data[: self._left]
        if len(data) > self._left:
            self.kill("output")
        self._left -= min(len(data), self._left)
        return len(data)

    def kill(self, breach: str) -> None:
        """End the job for breaking this limit."""
        self.breach = self.breach or breach
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def hung_up(self) -> None:
        """The host is gone: the box ends, and with its first process all others."""
        os._exit(0)

    def members(self) -> list[int]:
        """The job's processes."""
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in self._ours]

    def measure(self) -> None:
        """Sum memory and CPU over the job's processes and kill it where it is over."""
        resident, ticks, members = 0, 0, []
        for pid in self.members():
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
                resident += int(fields[21]) * _PAGE
                ticks += sum(map(int, fields[11:15]))
                members.append(pid)
        self.cpu_s = max(self.cpu_s, ticks / _CLOCK)
        if self.cpu_s > float(self._limits["cpu_s"]):
            self.kill("cpu")
        if resident > int(self._limits["memory_bytes"]) and self._own(members) > int(self._limits["memory_bytes"]):
            self.kill("memory")

    def _own(self, members: list[int]) -> int:
        """Memory of the job with shared pages counted once: resident sums count a forked page many times."""
        total = 0
        for pid in members:
            try:
                rollup = _read(f"/proc/{pid}/smaps_rollup")
            except OSError:
                rollup = b""
            rows = (row.split() for row in rollup.splitlines()[1:])
            if sizes := {row[0]: int(row[1]) for row in rows}:
                total += (sizes.get(b"Pss_Anon:", 0) + sizes.get(b"Pss_Shmem:", 0)) * 1024
                continue
            with contextlib.suppress(OSError, ValueError, IndexError):
                total += int(_read(f"/proc/{pid}/statm").split()[1]) * _PAGE
        return total


def processor_time(pid: int) -> float:
    """Seconds that a process and the children it has waited for have used."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return sum(map(int, fields[11:15])) / _CLOCK


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 1 << 16)
    finally:
        os.close(fd)
