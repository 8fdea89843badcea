"""Runs the gradings of many end states in one call. Entry `rover.verify.inside_many:grade`; it runs in the box.

The box's workspace holds verifier/ and one file, `shelf`: the bytes of all states and one job for each, end to end.
The shelf is unlinked at once and stays open in this process alone. Each state gets a process of its own, which reads
its job, lays its files out, lets go of the shelf and does just what `inside.grade` does. Then the workspace is emptied;
where anything was left in a temporary folder or among the checks, there is no next state.

What holds for a check that is hostile: it runs in a fork of its own, as in a grading of one state. When it runs, no
file of another state is there, no descriptor leads to one (those of its ancestors are closed to it: they are not
dumpable), and its ancestors never had another state's bytes in memory: of the shelf they know offsets and ids, and
what earlier checks said goes to a file that they do not read before all is done. What it leaves behind in the
workspace, in a temporary folder or as a process is removed or ends the batch; who asked grades the rest one by one.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from rover.verify import inside
from rover.verify.inside_series import series
from rover.verify.process import become_reaper, end

Json = dict[str, Any]

EPOCH = 946684800  # 2000-01-01: the time of every file that a box lays out
#: seconds beyond its own limit after which a state's process is ended
PATIENCE = 5.0
#: a job that takes this share of its time is slow; after so many the rest is not begun: a check that hangs would take
#: its whole time on each of them
SLOW, MOST_SLOW = 0.25, 2
TEMPORARY = ("/tmp", "/dev/shm")

#: offset and size on the shelf
Span = tuple[int, int]


def grade(payload: Json) -> list[Any]:
    """What came of each job, in order; None where its process did not end well, or was not begun because an earlier one
    left traces or several were slow.

    payload: jobs [(span, seconds)], blobs {id: span}. A job on the shelf is {files: {path: blob id}, grade: payload of
    `inside.grade`}, and gives {criterion: {score, reason} or {error}}; or {series: see `inside_series`}.
    """
    become_reaper()
    shelf = os.open("shelf", os.O_RDONLY)
    os.unlink("shelf")
    done: list[bool] = []
    before, strewn = _stats("verifier"), _strewn()
    inside.compile_checks("verifier")
    with tempfile.TemporaryFile() as spool:
        slow = 0
        for span, wall_s in payload["jobs"]:
            began = time.monotonic()
            done.append(_state(shelf, span, payload["blobs"], spool.fileno(), wall_s))
            slow += time.monotonic() - began > SLOW * wall_s
            if not _emptied() or _stats("verifier") != before or _strewn() != strewn:
                done[-1] = False
                break
            if slow == MOST_SLOW:
                break
        spool.seek(0)
        said = iter([json.loads(line) for line in spool.read().splitlines()])
    os.close(shelf)
    out = [next(said, None) if ended else None for ended in done]
    return out + [None] * (len(payload["jobs"]) - len(out))


def _state(shelf: int, span: Span, blobs: Mapping[str, Span], spool: int, wall_s: float) -> bool:
    """Grade one state in a process of its own, which adds one line to the spool; whether it did."""
    begins = os.lseek(spool, 0, os.SEEK_CUR)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            line = json.dumps(_job(json.loads(_read(shelf, span)), _Floor(shelf, blobs))).encode() + b"\n"
            while line:
                line = line[os.write(spool, line) :]
            code = 0
        finally:
            os._exit(code)
    handle = os.pidfd_open(pid)
    try:
        select.select([handle], [], [], wall_s + PATIENCE)
    finally:
        os.close(handle)
    status = end(pid, 0.0)
    if os.waitstatus_to_exitcode(status) == 0:
        return True
    os.ftruncate(spool, begins)
    os.lseek(spool, begins, os.SEEK_SET)
    return False


def _job(job: Json, floor: _Floor) -> Any:
    if "series" in job:
        return series(job["series"], floor.lay)
    floor.lay(job["files"])
    floor.close()
    return {found.pop("criterion"): found for found in inside.grade(job["grade"])}


def _read(shelf: int, span: Span) -> bytes:
    offset, size = span
    return os.pread(shelf, size, offset)


class _Floor:
    """Where states are laid out, as a box lays them out: mode 0644, the time EPOCH. What stays is not touched."""

    def __init__(self, shelf: int, blobs: Mapping[str, Span]) -> None:
        self._shelf = shelf
        self._blobs = blobs
        self._lies: dict[str, str] = {}

    def lay(self, files: Mapping[str, str]) -> None:
        os.umask(0o022)
        for path in [p for p, blob in self._lies.items() if files.get(p) != blob]:
            os.unlink(path)
            del self._lies[path]
            folder = os.path.dirname(path)
            while folder and not os.listdir(folder):
                os.rmdir(folder)
                folder = os.path.dirname(folder)
        for path, blob in files.items():
            if path not in self._lies:
                self._write(path, _read(self._shelf, self._blobs[blob]))
                self._lies[path] = blob

    def close(self) -> None:
        os.close(self._shelf)

    def _write(self, path: str, data: bytes) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        while data:
            data = data[os.write(fd, data) :]
        os.utime(fd, (EPOCH, EPOCH))
        os.close(fd)


def _emptied() -> bool:
    """Take away what a state laid out; False where something else was left in the workspace."""
    names = set(os.listdir(".")) - {"verifier"}
    left = [name for name in sorted(names) if not _gone(name)]
    return not left and names <= {"start", "end"}


def _strewn() -> list[list[str]]:
    """What lies in the temporary folders: seen, and never touched, since not every box has folders of its own."""
    return [sorted(os.listdir(folder)) if os.path.isdir(folder) else [] for folder in TEMPORARY]


def _gone(path: str) -> bool:
    with contextlib.suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    return not os.path.lexists(path)


def _stats(folder: str) -> list[tuple[object, ...]]:
    """Every file and folder with what a change of it would move."""
    found: list[tuple[object, ...]] = []
    for at, _, names in os.walk(folder):
        for path in (at, *(os.path.join(at, name) for name in sorted(names))):
            s = os.lstat(path)
            found.append((path, s.st_ino, s.st_mode, s.st_size, s.st_mtime_ns, s.st_ctime_ns))
    return found
