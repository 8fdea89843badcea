"""Statuses on many states in few processes: one for each criterion, which goes from state to state. Runs in the box.

A process for every check of every tree of every rollout would cost more than the checks. Here a leader forks one
process a criterion, lays out one state after the other, and asks each process in turn. The processes are confined as
those of a single check are. What is weaker than there: a check keeps its memory from one state to the next. So it is
loaded anew and what the library has read is forgotten before each state, random numbers begin anew, and who asked
compares what comes out for end states with what single checks said of them: a check that is not a function of its
evidence is found out there, and is asked one by one from then on.

No check is shown a file of a state that is not its turn, and none sees what another criterion's process holds.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import select
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from rover.verify import inside
from rover.verify.checklib.read import forget
from rover.verify.process import PRINT_BYTES, RESULT_BYTES, become_reaper, confine, kill, reap

Json = dict[str, Any]
#: makes these files the workspace: path -> blob id
LayOut = Callable[[Mapping[str, str]], None]


def series(job: Json, lay_out: LayOut) -> list[Json]:
    """What the checks say of each view, in order: {criterion: {score, reason} or {error}}, without what did not come
    out. RuntimeError where a check changed the workspace: then nothing is to be trusted.

    job: criteria [{id, check, paths, anchors}], views [{files, irregular, message, ask: [criterion]}], check_wall_s.
    """
    become_reaper()
    inside.prepare(0.0, 0)
    workers = {c["id"]: _Worker(c, job) for c in job["criteria"]}
    out: list[Json] = []
    try:
        for number, view in enumerate(job["views"]):
            lay_out(view["files"])
            seen = inside.stats()
            out.append(_view(number, view, workers, float(job["check_wall_s"])))
            if inside.stats() != seen or not _holds(view["files"]):
                raise RuntimeError("a check changed the workspace")
    finally:
        for worker in workers.values():
            worker.close()
        reap()
    return out


def _view(number: int, view: Json, workers: Mapping[str, _Worker], wall_s: float) -> Json:
    found: Json = {}
    for name in view["ask"]:
        worker = workers[name]
        said = inside.irregular(worker.criterion, view) or worker.ask(number, wall_s)
        if said is not None:
            found[name] = said
    return found


def _holds(files: Mapping[str, str]) -> bool:
    """Whether every file has the bytes that were laid out: a mapped write changes no time."""
    for path, blob in files.items():
        with open(path, "rb") as file:
            data = file.read()
        if hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest() != blob:
            return False
    return True


class _Worker:
    """The process of one criterion, from outside."""

    def __init__(self, criterion: Json, job: Json) -> None:
        self.criterion = criterion
        control, self._control = os.pipe()
        self._result, result = os.pipe()
        self._prints, prints = os.pipe()
        self._printed = 0
        self._pid = os.fork()
        if self._pid == 0:
            try:
                confine(result, prints, float(job["check_wall_s"]) * len(job["views"]), control)
                _work(criterion, job["views"])
            finally:
                os._exit(0)
        for fd in (control, result, prints):
            os.close(fd)

    def ask(self, number: int, wall_s: float) -> Json | None:
        """What the check says of this view; None where it did not say it well, and then it is not asked again."""
        if not self._pid:
            return None
        try:
            os.write(self._control, number.to_bytes(4, "big"))
            found = json.loads(self._line(time.monotonic() + wall_s))
        except (OSError, ValueError, RecursionError):
            self.close()
            return None
        return inside.taken(found)

    def _line(self, deadline: float) -> bytes:
        data = b""
        watched = [self._result, self._prints]
        while not data.endswith(b"\n"):
            ready, _, _ = select.select(watched, [], [], max(0.0, deadline - time.monotonic()))
            for fd in ready:
                chunk = os.read(fd, 65536)
                if fd == self._result:
                    data += chunk
                else:
                    self._printed += len(chunk)
                if not chunk:
                    raise ValueError("its process ended")
            if not ready or len(data) > RESULT_BYTES or self._printed > PRINT_BYTES:
                raise ValueError("a limit was reached")
        return data

    def close(self) -> None:
        """End the process; what it started, and hid, ends with the series."""
        if self._pid:
            for fd in (self._control, self._result, self._prints):
                os.close(fd)
            kill(self._pid)
            self._pid = 0


def _work(criterion: Json, views: list[Json]) -> None:
    """In the process: answer for each view that is asked about."""
    lies: Json = {}
    while number := os.read(4, 4):
        view = views[int.from_bytes(number, "big")]
        start = {path: blob for path, blob in view["files"].items() if path.startswith("start/")}
        forget(start=start != lies)  # a new file may have the inode, size and time of the one that lay there
        lies = start
        random.seed(0)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(0)
        slow = inside.read_once([criterion])
        said: Json = {} if slow else inside.answer(criterion, view)
        _write(json.dumps(said).encode() + b"\n")


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(3, data) :]
