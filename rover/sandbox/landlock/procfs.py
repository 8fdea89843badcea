"""What a process may read of itself and of its fellows below /proc, opened by the supervisor.

No rule of Landlock can grant it: the folder of a process that starts later does not exist yet, and all of /proc would
tell of the whole host. So every opening for reading is asked about. What lies elsewhere goes on as it came: there
Landlock decides, whatever the path says by then. What it would deny below /etc and the like is said not to exist.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from rover.sandbox.landlock.notices import Answered, Listener, Notice, Passed, Refused, Service, memory, signed

#: what programs look at; nothing that writes, and no list of the host's mounts
NAMES = frozenset(
    {
        "auxv", "cgroup", "cmdline", "comm", "environ", "fd", "io", "limits", "maps", "oom_score", "sched",
        "schedstat", "smaps", "smaps_rollup", "stat", "statm", "status", "task", "wchan",
    }
)  # fmt: skip
#: below these nothing is there but what was granted: a file that is seen but cannot be opened ends some programs
EMPTY = (b"/etc/", b"/proc/", b"/run/", b"/sys/", b"/var/", b"/boot/")
_ENOUGH = 96


def services(job: Callable[[], list[int]], granted: tuple[str, ...]) -> dict[str, Service]:
    """By name of the call. `job` gives the processes of the job that runs."""
    kept = tuple(path.encode() for path in granted if path.encode().startswith(EMPTY))

    def serve(on: Listener, notice: Notice, address: int, flags: int) -> int:
        path = memory(notice, address, _ENOUGH).partition(b"\0")[0] if address else b""
        if not path.startswith(EMPTY):
            raise Passed
        if own := _own(path, notice.pid, job):
            fd = os.open(own, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                on.valid(notice)
                on.send_fd(notice, fd, signed(flags) & os.O_CLOEXEC)
            finally:
                os.close(fd)
            raise Answered
        if b".." in path or any(path == one or path.startswith(one + b"/") for one in kept):
            raise Passed
        raise Refused(errno.ENOENT)

    return {
        "open": lambda on, notice: serve(on, notice, notice.args[0], notice.args[1]),
        "openat": lambda on, notice: serve(on, notice, notice.args[1], notice.args[2]),
    }


def _own(path: bytes, caller: int, job: Callable[[], list[int]]) -> str:
    """What is to be opened, where a path is a file of a process of the job; else empty."""
    parts = path.decode("ascii", "replace").split("/")[1:]
    if parts[0] != "proc" or len(parts) < 3 or parts[2] not in NAMES:
        return ""
    rest = [part for part in parts[3:] if part]
    if rest and not _of_a_thread(parts[2], rest):
        return ""
    if parts[1] in ("self", "thread-self"):
        return "/".join(["/proc", str(caller), parts[2], *rest])
    if parts[1].isdigit() and int(parts[1]) in job():
        return "/".join(["/proc", parts[1], parts[2], *rest])
    return ""


def _of_a_thread(name: str, rest: list[str]) -> bool:
    """`task/NUMBER`, and a file of that."""
    return name == "task" and rest[0].isdigit() and len(rest) < 3 and not NAMES.isdisjoint(rest[1:] or NAMES)
