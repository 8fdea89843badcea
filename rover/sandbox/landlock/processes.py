"""The processes of a box, found and ended without a namespace: they are the descendants of its supervisor.

The supervisor is a subreaper: whatever a job leaves behind becomes its child. To end a job all its processes are
stopped first, until no new one is found, so that none can fork away; then they are killed and waited for.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable

from rover.sandbox.inside.processes import send, state

#: seconds after which a process that neither stops nor dies is left to the kernel, where it waits
PATIENCE_S = 5.0


def children(pid: int | str) -> list[int]:
    """The children of a process and of its threads, now."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", "rb") as stream:
                found += map(int, stream.read().split())
    except OSError:
        pass
    return found


def descendants(roots: Iterable[int], but: set[int]) -> list[int]:
    """These processes and all below them, less what is in `but` and stands below that."""
    found: dict[int, None] = {}
    todo = [pid for pid in roots if pid not in but]
    while todo:
        pid = todo.pop()
        if pid not in found:
            found[pid] = None
            todo += [child for child in children(pid) if child not in but]
    return list(found)


def members(but: set[int], warm: Iterable[int] = ()) -> list[int]:
    """The processes of the jobs: all below this one and below the `warm` ones, less `but`."""
    roots = [*children("self"), *(child for pid in warm for child in children(pid))]
    return descendants(roots, but)


def hold(but: set[int], warm: Iterable[int] = ()) -> dict[int, bool]:
    """Stop every process of the jobs, and return them once they stand still, with whether each has to go on
    afterwards: one that had been stopped before has not."""
    held: dict[int, bool] = {}
    end = time.monotonic() + PATIENCE_S
    while fresh := set(members(but, warm)) - held.keys():
        for pid in fresh:
            held[pid] = state(pid) != b"T"
            send(pid, signal.SIGSTOP)
        while any(runs(pid) for pid in fresh) and time.monotonic() < end:
            time.sleep(0.0005)
    return held


def sweep(but: set[int], warm: Iterable[int] = ()) -> None:
    """End every process of the jobs, and wait until they are dead. The warm processes reap their own children."""
    if not members(but, warm):
        return
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        held = hold(but, warm)
        for pid in held:
            send(pid, signal.SIGKILL)
        for pid in held:
            while runs(pid) and time.monotonic() < end:
                time.sleep(0.0002)
        reap(but)
        if not any(runs(pid) for pid in members(but, warm)):
            return


def reap(but: set[int]) -> None:
    """Take note of children that are dead."""
    for pid in children("self"):
        if pid not in but:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def release(held: Iterable[int]) -> None:
    for pid in held:
        send(pid, signal.SIGCONT)


def runs(pid: int) -> bool:
    """Neither stopped nor dead."""
    return state(pid) in (b"R", b"S", b"D")


def tasks_of_user() -> int:
    """How many processes and threads of this user the kernel counts, as far as can be seen."""
    me, total = os.geteuid(), 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == me:
                    total += len(os.listdir(f"/proc/{name}/task"))
    return total
