"""A command that lives while its box answers other requests: its processes are held still for each of them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterable
from typing import Any

from rover.sandbox.inside import frames
from rover.sandbox.inside.command import REPORT
from rover.sandbox.inside.processes import send, state
from rover.sandbox.inside.watch import Watch

#: seconds after which a process that does not stop is left as it is: it waits for the kernel
STOP_S = 1.0
#: seconds that the host may take to read the answer
ANSWER_S = 30.0


class Live:
    """One such command. `pid` is its first process, `report` what that one writes its end to, `answer` the socket
    that the host waits at."""

    def __init__(self, pid: int, pidfd: int, watch: Watch, pipes: list[int], answer: int) -> None:
        self.watch = watch
        self._pid = pid
        self._fds = [*pipes, pidfd]
        self._report = pipes[2]
        self._answer = socket.socket(fileno=answer)

    def finish(self) -> None:
        """Tell the host how it ended. Its processes are dead."""
        os.waitpid(self._pid, 0)
        os.set_blocking(self._report, False)
        try:
            said = os.read(self._report, 4096)
        except BlockingIOError:
            said = b""
        head, body = ended(said, self.watch)
        with contextlib.suppress(frames.Closed, OSError), self._answer:
            self._answer.settimeout(ANSWER_S)
            frames.send(self._answer, head, body)
        for fd in self._fds:
            os.close(fd)

    def cancel(self) -> None:
        """End it, and tell the host."""
        self.watch.kill("cancelled")
        self.watch.wait()
        self.finish()


def ended(said: bytes, watch: Watch) -> tuple[dict[str, Any], list[bytes]]:
    """The answer for a command that has ended: `said` is what its first process reported."""
    status = -1
    if len(said) == REPORT.size:
        status, user, system = REPORT.unpack(said)
        watch.cpu_s = max(watch.cpu_s if watch.breach else 0.0, user + system)
    elif not watch.breach:
        reason = said.decode("utf-8", "replace") or "its first process was killed"
        return {"error": f"the command could not be confined: {reason}"}, []
    head = {"status": status, "breach": watch.breach, "cpu_s": watch.cpu_s, "wall_s": watch.wall_s}
    return with_streams(head, watch)


def with_streams(head: dict[str, Any], watch: Watch) -> tuple[dict[str, Any], list[bytes]]:
    out, err = (bytes(stream) for stream in watch.streams.values())
    return {**head, "stdout": len(out)}, [out, err]


def hold(ours: set[int]) -> dict[int, bool]:
    """Stop every process of the box that is not ours, and return them once they stand still, with whether each has
    to go on afterwards: one that had been stopped before has not."""
    held: dict[int, bool] = {}
    while fresh := {int(n) for n in os.listdir("/proc") if n.isdigit()} - ours - held.keys():
        for pid in fresh:
            held[pid] = state(pid) != b"T"
            send(pid, signal.SIGSTOP)
        end = time.monotonic() + STOP_S
        while any(state(pid) in (b"R", b"S", b"D") for pid in fresh) and time.monotonic() < end:
            time.sleep(0.0005)
    return held


def release(held: Iterable[int]) -> None:
    """Let them go on."""
    for pid in held:
        send(pid, signal.SIGCONT)
