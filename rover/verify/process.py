"""One piece of untrusted work in a forked process of its own: bounded, watched, and ended with all it started."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

RESULT_BYTES = 64 << 10
PRINT_BYTES = 256 << 10
MEMORY_BYTES = 1 << 30
FILE_BYTES = 1 << 20
#: why a check has no result whose time was over, or was over before it began
LATE, NO_TIME = "the check did not end in time", "no time was left for this check"


def isolated(work: Callable[[], Any], wall_s: float) -> tuple[Any, str]:
    """(the JSON value that `work` returned, empty) or (None, why there is none)."""
    result_r, result_w = os.pipe()
    prints_r, prints_w = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        try:
            confine(result_w, prints_w, wall_s)
            os.write(3, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(result_w)
    os.close(prints_w)
    why = "the check could not be watched"
    try:
        data, why = _drain(pid, result_r, prints_r, time.monotonic() + wall_s)
    finally:
        os.close(result_r)
        os.close(prints_r)
        status = end(pid, 0.0 if why else 0.2)
    if why:
        return None, why
    try:
        return json.loads(data), ""
    except (ValueError, RecursionError):
        pass
    if os.WIFSIGNALED(status):
        return None, f"the check was killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return None, "the check ended without a result"


def become_reaper() -> None:
    """Orphans of a check become children of this process, wherever they hide."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def confine(result_w: int, prints_w: int, wall_s: float, control: int | None = None) -> None:
    """Inside the fork: descriptor 0 is empty, 1 and 2 are the prints, 3 the result, 4 what it is told where it is told
    anything, and nothing else is open."""
    os.setpgid(0, 0)
    told = [] if control is None else [os.dup(control)]
    result, prints = os.dup(result_w), os.dup(prints_w)
    empty = os.open(os.devnull, os.O_RDONLY)
    high = max(result, prints, empty, *told) + 1
    result, prints, empty, *told = (_lift(fd, high) for fd in (result, prints, empty, *told))
    for fd, at in ((empty, 0), (prints, 1), (prints, 2), (result, 3), *((fd, 4) for fd in told)):
        os.dup2(fd, at, inheritable=at < 3)
    os.closerange(4 + len(told), 4096)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit is an OSError
    _limit(resource.RLIMIT_AS, _mapped() + MEMORY_BYTES)
    _limit(resource.RLIMIT_CPU, max(1, math.ceil(wall_s)))
    _limit(resource.RLIMIT_FSIZE, FILE_BYTES)
    _limit(resource.RLIMIT_CORE, 0)


def _lift(fd: int, at: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD, max(at, 10))


def _limit(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    top = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(what, (top, top))


def _mapped() -> int:
    """Address space in use: the limit is on what a check adds to the warm process it was forked from."""
    with open("/proc/self/statm", "rb") as f:
        return int(f.read().split()[0]) * resource.getpagesize()


def _drain(pid: int, result: int, prints: int, deadline: float) -> tuple[bytes, str]:
    """Read the result until its pipe closes or the check has ended (what it left running may hold the pipe).

    Returns it with the reason the check has to be killed, if any.
    """
    data, printed, ended = b"", 0, os.pidfd_open(pid)
    watched = {result, prints, ended}
    try:
        while True:
            ready, _, _ = select.select(list(watched), [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return data, LATE
            for fd in set(ready) - {ended}:
                chunk = os.read(fd, 65536)
                if not chunk:
                    watched.discard(fd)
                elif fd == result:
                    data += chunk
                else:
                    printed += len(chunk)
            if len(data) > RESULT_BYTES:
                return b"", "the check gave a result that is too large"
            if printed > PRINT_BYTES:
                return b"", f"the check printed more than {PRINT_BYTES >> 10} KB"
            if result not in watched or set(ready) == {ended}:
                return data, ""
    finally:
        os.close(ended)


def end(pid: int, grace_s: float) -> int:
    """Kill a check with all it started, and return its wait status. A check that is done may end by itself."""
    ended = os.pidfd_open(pid)
    select.select([ended], [], [], grace_s)
    os.close(ended)
    status = kill(pid)
    reap()
    return status


def kill(pid: int) -> int:
    """Kill a child and its group; what left the group stays for `reap`."""
    for target in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            target(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def reap() -> None:
    """End every child that is left: orphans come to this process, which is their reaper."""
    for _ in range(200):
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:  # the kernel says that none is left, which is cheaper than to look for them
            return
        for child in _children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)


def _children() -> list[int]:
    out = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as f:
                if int(f.read().rpartition(b")")[2].split()[1]) == os.getpid():
                    out.append(int(name))
    return out
