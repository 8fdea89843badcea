"""The processes below this one: adopted when their parent dies, counted, and waited for until they are gone."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: seconds: what a killed command started is gone by then
GONE = 3.0
PR_SET_CHILD_SUBREAPER = 36


#: what a container engine mounts, which other tests use meanwhile
ENGINES = ("/docker/", "/overlay2/", "/netns/", "/containers/", "/vfs/")


def mounts() -> list[str]:
    """Where something is mounted on this machine, by an engine apart."""
    places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return sorted(place for place in places if not any(part in place for part in ENGINES))


@contextmanager
def adopting() -> Iterator[set[int]]:
    """Orphans below this process become its children, so that none of them can hide."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield set(below(os.getpid()))
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def until_gone(ours: set[int]) -> float:
    began = time.monotonic()
    while True:
        left = {pid: name for pid, name in below(os.getpid()).items() if pid not in ours}
        spent = time.monotonic() - began
        if not left:
            return spent
        assert spent < GONE, f"still there after {spent:.1f} s: {sorted(left.values())}"
        time.sleep(0.01)


def below(root: int) -> dict[int, str]:
    """Living processes below one, by id; adopted ones that ended are reaped on the way."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                name, _, rest = Path(f"/proc/{entry}/stat").read_text().partition("(")[2].rpartition(") ")
            except OSError:
                continue
            state, parent = rest.split()[:2]
            if state != "Z":
                parents[int(entry)] = (int(parent), name)
            elif int(parent) == root:
                _reap(int(entry))
    found: dict[int, str] = {}
    fresh = {root}
    while fresh:
        fresh = {pid for pid, (parent, _) in parents.items() if parent in fresh}
        found.update((pid, parents[pid][1]) for pid in fresh)
    return found


def processor_time(root: int) -> float:
    """Processor time of a process, all below it, and all of those that ended."""
    ticks, todo = 0, [root]
    while todo:
        folder = Path(f"/proc/{todo.pop()}")
        try:
            ticks += sum(int(n) for n in (folder / "stat").read_text().rpartition(") ")[2].split()[11:15])
            for thread in (folder / "task").iterdir():
                todo += map(int, (thread / "children").read_text().split())
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
