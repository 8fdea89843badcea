"""The warm process that calls are forked from: libraries imported once, one confined child for each call.

It never reads a job. Job and result are descriptors that only the child touches, so nothing of one call can
stay in memory that a later one inherits. It keeps a single thread: a fork would lose the others.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import random
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

from rover.sandbox.inside import frames
from rover.sandbox.inside.confine import Powers, confine, fork_in_pid_namespace
from rover.sandbox.inside.entry import one_line, perform


def serve(sock: socket.socket, fork: Callable[[], tuple[int, int]], confine: Callable[[dict[str, Any]], None]) -> None:
    """Answer fork and reap requests until the supervisor hangs up. `fork` gives (pid, pidfd), (0, -1) in the child;
    `confine` confines a child for a request, before it reads its job."""
    # pandas takes pyarrow in where it is installed: that starts threads, and would make results depend on it
    sys.modules["pyarrow"] = None  # type: ignore[assignment]
    while True:
        try:
            request = frames.receive(sock)
        except frames.Closed:
            os._exit(0)
        if "reap" in request.head:
            _, status = os.waitpid(int(request.head["reap"]), 0)
            frames.send(sock, {"status": status})
            continue
        try:
            _warm(request.head["warm"])
            pid, pidfd = fork()
        except BaseException as error:
            frames.send(sock, {"error": one_line(error)})
            _close(request.fds)
            continue
        if pid == 0:
            _become_call(confine, request.head, request.fds)
        frames.send(sock, {"pid": pid}, fds=[pidfd])
        _close([*request.fds, pidfd])


def _warm(modules: list[str]) -> None:
    """Import what later children then need not. A module that fails fails again in the child, and is named."""
    fresh = [name for name in modules if name not in sys.modules]
    for name in fresh:
        with contextlib.suppress(Exception), _without_numpy(name):
            importlib.import_module(name)
    if fresh:
        gc.collect()
        gc.freeze()
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"the warm process has {threads} threads; a fork would lose all but one")


@contextlib.contextmanager
def _without_numpy(name: str) -> Iterator[None]:
    """openpyxl takes numpy in where it can, for numbers that nobody here hands it; every fork would pay for it."""
    hide = name == "openpyxl" and "numpy" not in sys.modules
    if hide:
        sys.modules["numpy"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hide:
            del sys.modules["numpy"]


def _become_call(confine: Callable[[dict[str, Any]], None], head: dict[str, Any], fds: list[int]) -> None:
    """In the child: confine, read the job, run it, write the result, end."""
    try:
        null = os.open("/dev/null", os.O_RDONLY)
        high = [os.dup2(fd, 100 + i, inheritable=False) for i, fd in enumerate([null, *fds])]
        order = [high[0], high[3], high[4], high[1], high[2], *high[5:]]  # what is more is for `confine`
        for i, fd in enumerate(order):
            os.dup2(fd, i, inheritable=i < 3)
        os.closerange(len(order), 4096)
        confine(head)
        _seed()
        job = bytearray()
        while data := os.read(3, 1 << 20):
            job += data
        answer = perform(bytes(job))
        while answer:
            answer = answer[os.write(4, answer) :]
        os._exit(0)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(2, one_line(error).encode())
    finally:
        os._exit(99)


def _seed() -> None:
    """Equal calls draw equal numbers, whatever the warm process did before."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def main() -> None:
    powers = Powers()
    sock = socket.socket(fileno=int(sys.argv[1]))
    serve(sock, fork_in_pid_namespace, lambda head: confine(powers, head["limits"], hide=[]))
