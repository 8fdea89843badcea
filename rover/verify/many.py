"""Scores of many end states under one verifier in one call, so that a box is set up once and not once a state.

What comes out is put into the memo, where `grade` finds it. What does not come out (a failed check, a limit, a state
whose process left traces) is not there, and `grade` runs it by itself: so a verdict is what it always was, and this
module may give up on anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from rover.sandbox.protocol import Files, Sandbox
from rover.verify.plan import Graded, Part, Todo, job_of, plan, remember
from rover.verify.shown import Memo
from rover_store.ids import blob_id
from rover_store.records import Criterion, Limits

ENTRY = "rover.verify.inside_many:grade"
BOOKS_ENTRY = "rover.verify.inside_many_books:grade"
#: states of one call, and bytes of them all
MOST_STATES, MOST_BYTES = 256, 32 << 20

Borrow = Callable[[Files], AbstractContextManager[Sandbox]]


@dataclass(frozen=True, slots=True)
class Asked:
    """An end state and the criteria that are asked of it."""

    criteria: tuple[Criterion, ...]
    graded: Graded


def know(
    borrow: Borrow, verifier_files: Files, asked: Iterable[Asked], memo: Memo, *, limits: Limits | None = None
) -> int:
    """Have the memo know the scores of these criteria on these states; how many checks were run for it."""
    limits = limits or Limits()
    work: list[tuple[Todo, list[Part]]] = []
    planned: set[str] = set()
    for one in asked:
        todo = plan(one.criteria, verifier_files, one.graded, memo, skip=planned)
        for parts in todo.calls:
            work.append((todo, parts))
            planned.update(todo.names[c.id] for part in parts for c in part.criteria)
    books = [one for one in work if _books(one[1])]
    for some in [*_batches([one for one in work if not _books(one[1])]), *_batches(books)]:
        _run(borrow, verifier_files, some, memo, limits)
    return len(planned)


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


def _run(
    borrow: Borrow, verifier_files: Files, work: Sequence[tuple[Todo, list[Part]]], memo: Memo, limits: Limits
) -> None:
    """One call; what it says goes into the memo."""
    shelf = _Shelf()
    jobs = []
    for _, parts in work:
        grading = job_of(parts, verifier_files, limits)
        first = parts[0].view
        files = {f"end/{path}": shelf.put(data) for path, data in first.end.items()}
        files |= {f"start/{path}": shelf.put(data) for path, data in first.start.items()}
        jobs.append(shelf.add(json.dumps({"files": files, "grade": grading}).encode()))
    checks = {f"verifier/{path}": data for path, data in verifier_files.items() if path.startswith("checks/")}
    payload = {"jobs": jobs, "blobs": shelf.blobs, "wall_s": limits.wall_s}
    bounds = limits.model_copy(
        update={"wall_s": limits.wall_s * (1 + len(jobs)), "cpu_s": limits.cpu_s * (1 + len(jobs))}
    )
    with borrow({**checks, "shelf": bytes(shelf.data)}) as box:
        result = box.call(BOOKS_ENTRY if _books(work[0][1]) else ENTRY, payload, limits=bounds)
    if result.breach or result.error or not isinstance(result.value, list):
        return
    for (todo, _), said in zip(work, result.value, strict=True):
        if said is not None:
            remember(memo, todo.names, _known(said))


def _books(parts: list[Part]) -> bool:
    """Whether a workbook is shown to them."""
    view = parts[0].view
    return any(path.endswith((".xlsx", ".xlsm")) for state in (view.start, view.end) for path in state)


def _known(said: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {criterion: found for criterion, found in said.items() if "error" not in found}


def _batches(work: list[tuple[Todo, list[Part]]]) -> Iterable[list[tuple[Todo, list[Part]]]]:
    """Bounded pieces; a state that is too large for a batch is in none."""
    batch: list[tuple[Todo, list[Part]]] = []
    held = 0
    for todo, parts in work:
        size = sum(map(len, parts[0].view.end.values())) + sum(map(len, parts[0].view.start.values()))
        if size > MOST_BYTES:
            continue
        if batch and (held + size > MOST_BYTES or len(batch) >= MOST_STATES):
            yield batch
            batch, held = [], 0
        batch.append((todo, parts))
        held += size
    if batch:
        yield batch
