"""Scores of many end states, and statuses on many states on the way, under one verifier in few calls.

Scores go into the memo, where `grade` finds them: a box is set up once and not once a state. What does not come out
(a failed check, a limit, a state whose process left traces) is not there, and `grade` runs it by itself: so a verdict
is what it always was, and this module may give up on anything.

Statuses come from series (`inside_series`), in which a criterion's process goes from state to state; they never become
a score. A series takes in the end states too. Where it does not say of each of them what the score is, the criterion
is no function of its evidence when asked so: its statuses are dropped, and it is asked alone from then on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from rover.sandbox.protocol import Files, Sandbox
from rover.verify.plan import Graded, Part, Todo, criterion_of, job_of, plan, remember
from rover.verify.shown import Memo, Shown
from rover_store.ids import blob_id
from rover_store.records import Criterion, Limits

ENTRY = "rover.verify.inside_many:grade"
BOOKS_ENTRY = "rover.verify.inside_many_books:grade"
#: bytes of all states of one call, and states on the way of one series
MOST_BYTES, MOST_VIEWS = 32 << 20, 512

Borrow = Callable[[Files], AbstractContextManager[Sandbox]]
#: puts bytes on the shelf, gives their id
Put = Callable[[bytes], str]
Found = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """A state and the criteria that are asked of it. `end`: for a verdict, not on the way."""

    criteria: tuple[Criterion, ...]
    graded: Graded
    end: bool


@dataclass
class Known:
    """What is known, by the names of scores: `memo` of single checks, `statuses` of series.

    `alone` holds (verifier, criterion) that are not to be asked in series.
    """

    memo: Memo = field(default_factory=Memo)
    statuses: dict[str, float] = field(default_factory=dict)
    alone: set[tuple[str, str]] = field(default_factory=set)


def know(
    borrow: Borrow, verifier: str, files: Files, asked: Sequence[Asked], known: Known, limits: Limits | None = None
) -> int:
    """Have `known` hold what can be found in few calls; how many checks were run in them.

    `verifier` is the id of the verifier whose files these are.
    """
    limits = limits or Limits()
    jobs: list[_Job] = []
    series: dict[Shown, _Series] = {}
    planned: set[str] = set()
    ends = [plan(one.criteria, files, one.graded, known.memo) for one in asked if one.end]
    for todo in ends:
        for parts in _new(todo, planned):
            jobs.append(_Single(todo.names, parts))
    for one in asked:
        if one.end:
            continue
        todo = plan(one.criteria, files, one.graded, known.memo, skip=known.statuses)
        for parts in _new(todo, planned):
            if single := _some(parts, lambda c: (verifier, c.id) in known.alone):
                jobs.append(_Single(todo.names, single))
            for part in _some(parts, lambda c: (verifier, c.id) not in known.alone):
                series.setdefault(part.shown, _Series()).add(part, todo.names)
    for todo in ends:  # to compare
        for shown in todo.groups.keys() & series.keys():
            series[shown].add(todo.groups[shown], todo.names, also=False)
    jobs += series.values()
    for some in _calls(jobs):
        _run(borrow, files, some, known, limits)
    for one_series in series.values():
        one_series.settle(verifier, known)
    return len(planned)


def _new(todo: Todo, planned: set[str]) -> Iterator[list[Part]]:
    """Parts of a plan without what is planned already; what is left is planned from here on."""
    for parts in todo.calls:
        left = _some(parts, lambda c: todo.names[c.id] not in planned)
        planned.update(todo.names[c.id] for part in left for c in part.criteria)
        if left:
            yield left


def _some(parts: list[Part], wanted: Callable[[Criterion], bool]) -> list[Part]:
    """The parts with some of their criteria; parts without any are left out."""
    left = [replace(part, criteria=[c for c in part.criteria if wanted(c)]) for part in parts]
    return [part for part in left if part.criteria]


class _Job(Protocol):
    """Something that one process of the box does for a call."""

    def views(self) -> list[Graded]:
        """What it lays out."""

    def body(self, put: Put, files: Files, limits: Limits) -> dict[str, Any]:
        """What the box is told."""

    def take(self, said: Any, known: Known) -> None:
        """What the box said."""


class _Single:
    """Checks on one end state, each by itself."""

    def __init__(self, names: Mapping[str, str], parts: list[Part]) -> None:
        self._names = names
        self._parts = parts

    def views(self) -> list[Graded]:
        return [self._parts[0].view]

    def body(self, put: Put, files: Files, limits: Limits) -> dict[str, Any]:
        return {"files": _laid(self._parts[0].view, put), "grade": job_of(self._parts, files, limits)}

    def take(self, said: Any, known: Known) -> None:
        remember(known.memo, self._names, said)


class _Series:
    """Criteria that are shown the same, on many states in turn."""

    def __init__(self) -> None:
        self._criteria: dict[str, Criterion] = {}
        self._views: dict[str, tuple[Graded, dict[str, str]]] = {}  # what is shown -> it, criterion -> name
        self._said: dict[str, dict[str, Found]] = {}  # criterion -> name -> what it said

    def add(self, part: Part, names: Mapping[str, str], also: bool = True) -> None:
        """One more view. Without `also`, of criteria alone that are asked of others; there is room for those always,
        since nothing is believed that was not compared."""
        if also:
            self._criteria |= {c.id: c for c in part.criteria}
        wanted = {c.id: names[c.id] for c in part.criteria if c.id in self._criteria}
        if wanted and (not also or len(self._views) < MOST_VIEWS):
            self._views.setdefault(part.rests_on, (part.view, {}))[1].update(wanted)

    def views(self) -> list[Graded]:
        return [view for view, _ in self._views.values()]

    def body(self, put: Put, files: Files, limits: Limits) -> dict[str, Any]:
        views = [
            {"files": _laid(view, put), "irregular": {**view.irregular}, "message": view.message, "ask": sorted(names)}
            for view, names in self._views.values()
        ]
        criteria = [criterion_of(c, files) for _, c in sorted(self._criteria.items())]
        return {"series": {"criteria": criteria, "views": views, "check_wall_s": max(1.0, limits.wall_s / 3)}}

    def take(self, said: Any, known: Known) -> None:
        for (_, names), found in zip(self._views.values(), said, strict=True):
            for criterion, one in found.items():
                self._said.setdefault(criterion, {})[names[criterion]] = one

    def settle(self, verifier: str, known: Known) -> None:
        """Take the statuses of each criterion that said of end states what its single checks said."""
        for criterion, said in self._said.items():
            if any(name in known.memo.known and known.memo.known[name] != one for name, one in said.items()):
                known.alone.add((verifier, criterion))
                continue
            # a check that failed may have failed for what it did before: it is asked again by itself
            known.statuses |= {name: one["score"] for name, one in said.items() if "error" not in one}


def _laid(view: Graded, put: Put) -> dict[str, str]:
    files = {f"end/{path}": put(data) for path, data in view.end.items()}
    return files | {f"start/{path}": put(data) for path, data in view.start.items()}


class _Shelf:
    """Bytes end to end; equal ones once."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.blobs: dict[str, tuple[int, int]] = {}
        self._ids: dict[int, tuple[bytes, str]] = {}

    def put(self, data: bytes) -> str:
        known = self._ids.get(id(data))
        if known is not None:
            return known[1]
        blob = blob_id(data)
        self._ids[id(data)] = (data, blob)
        if blob not in self.blobs:
            self.blobs[blob] = self.add(data)
        return blob

    def add(self, data: bytes) -> tuple[int, int]:
        span = len(self.data), len(data)
        self.data += data
        return span


def _run(borrow: Borrow, files: Files, jobs: list[_Job], known: Known, limits: Limits) -> None:
    """One call."""
    shelf = _Shelf()
    told = []
    for job in jobs:
        body = job.body(shelf.put, files, limits)
        told.append((shelf.add(json.dumps(body).encode()), limits.wall_s * len(job.views())))
    seconds = {"wall_s": limits.wall_s + sum(wall_s for _, wall_s in told)}
    bounds = limits.model_copy(update={**seconds, "cpu_s": seconds["wall_s"]})
    checks = {f"verifier/{path}": data for path, data in files.items() if path.startswith("checks/")}
    with borrow({**checks, "shelf": bytes(shelf.data)}) as box:
        entry = BOOKS_ENTRY if _books(jobs[0]) else ENTRY
        result = box.call(entry, {"jobs": told, "blobs": shelf.blobs}, limits=bounds)
    if result.breach or result.error or not isinstance(result.value, list):
        return
    for job, said in zip(jobs, result.value, strict=True):
        if said is not None:
            job.take(said, known)


def _books(job: _Job) -> bool:
    """Whether a workbook is shown in it."""
    paths = (path for view in job.views() for state in (view.start, view.end) for path in state)
    return any(path.endswith((".xlsx", ".xlsm")) for path in paths)


def _size(job: _Job) -> int:
    """Bytes of all that it lays out; what several views share lies on the shelf once."""
    laid = [data for view in job.views() for data in (*view.end.values(), *view.start.values())]
    return sum({id(data): len(data) for data in laid}.values())


def _calls(jobs: list[_Job]) -> Iterable[list[_Job]]:
    """Bounded calls, those with workbooks apart: their processes are larger. What is too large for one is in none."""
    for books in (False, True):
        batch: list[_Job] = []
        held = 0
        for job in jobs:
            if _books(job) != books:
                continue
            size = _size(job)
            if size > MOST_BYTES:
                continue
            if batch and held + size > MOST_BYTES:
                yield batch
                batch, held = [], 0
            batch.append(job)
            held += size
        if batch:
            yield batch
