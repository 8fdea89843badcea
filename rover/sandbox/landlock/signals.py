"""Signals, sent by the supervisor to processes of the job alone, on kernels whose Landlock does not bound them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from rover.sandbox.landlock.notices import Listener, Notice, Refused, Service, signed
from rover.sandbox.landlock.processes import members


def services(ours: Callable[[], set[int]], warm: Callable[[], list[int]]) -> dict[str, Service]:
    def job() -> list[int]:
        return members(ours(), warm())

    def kill(_: Listener, notice: Notice) -> int:
        """To one process, to the caller's group (0), to a group (below -1), to all but the caller (-1)."""
        target, number = signed(notice.args[0]), signed(notice.args[1])
        mine = job()
        if target > 0:
            chosen = [pid for pid in mine if pid == target]
            if not chosen and os.path.exists(f"/proc/{target}"):
                raise Refused(errno.EPERM)
        elif target == -1:
            chosen = [pid for pid in mine if pid != notice.pid]
        else:
            group = os.getpgid(notice.pid) if target == 0 else -target
            chosen = [pid for pid in mine if _group(pid) == group]
        return _send(chosen, number)

    def thread(_: Listener, notice: Notice) -> int:
        """`tgkill`: a thread of a process of the job. The signal goes to that thread alone."""
        process, target, number = (signed(argument) for argument in notice.args[:3])
        if process not in job() or not os.path.exists(f"/proc/{process}/task/{target}"):
            raise Refused(errno.EPERM)
        return _to_thread(process, target, number)

    def bare(_: Listener, notice: Notice) -> int:
        """`tkill`: as `tgkill`, with the process left out."""
        target, number = signed(notice.args[0]), signed(notice.args[1])
        for process in job():
            if os.path.exists(f"/proc/{process}/task/{target}"):
                return _to_thread(process, target, number)
        raise Refused(errno.EPERM)

    return {"kill": kill, "tgkill": thread, "tkill": bare}


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return -1


def _send(pids: list[int], number: int) -> int:
    if not pids:
        raise Refused(errno.ESRCH)
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
    return 0


def _to_thread(process: int, target: int, number: int) -> int:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    call = 234 if os.uname().machine == "x86_64" else 131
    if libc.syscall(call, process, target, number) < 0:
        raise Refused(ctypes.get_errno())
    return 0
