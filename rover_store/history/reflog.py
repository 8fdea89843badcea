"""What a ref named before: git's reflog, read from the operation log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from rover_store.oplog import Operation


class Was(NamedTuple):
    """One move of a ref, seen from now: it went from `old` to `new` at `time`. None: it did not exist."""

    time: int
    old: str | None
    new: str | None


def history(operations: Iterable[Operation], ref: str, present: str | None, now: int) -> Iterator[Was]:
    """Moves of one ref, the newest first. A move that no operation recorded yet (another git's) comes first."""
    first = True
    for operation in operations:
        for move in reversed(operation.moves):
            if move.ref != ref:
                continue
            if first and move.new != present:
                yield Was(now, move.new, present)
            first = False
            yield Was(operation.time, move.old, move.new)
    if first and present is not None:
        yield Was(now, None, present)


def head_history(
    operations: Iterable[Operation], refs: Mapping[str, str], head: str, now: int
) -> Iterator[Was]:
    """The same for HEAD: it moves with its branch, and when another branch becomes the current one."""
    values: dict[str, str | None] = dict(refs)
    empty = True
    for operation in operations:
        after = values.get(head, head)
        for move in reversed(operation.moves):
            if move.ref == "HEAD":
                head = move.old or head
                continue
            if move.ref == head and values.get(head) != move.new:  # another git's move, not recorded yet
                yield Was(now, move.new, after)
                after, empty = move.new, False
            values[move.ref] = move.old
        before = values.get(head, head)
        if before != after:
            yield Was(operation.time, before, after)
            empty = False
    if empty and values.get(head, head) is not None:
        yield Was(now, None, values.get(head, head))


def branches_left(operations: Iterable[Operation]) -> Iterator[str]:
    """Refs that HEAD was on, each time it went to another one; the newest first."""
    for operation in operations:
        for move in reversed(operation.moves):
            if move.ref == "HEAD" and move.old is not None:
                yield move.old


def nth(moves: Iterable[Was], n: int) -> str | None:
    """What the ref named `n` moves ago (0: what it names). IndexError, with the number of moves, if not so many."""
    count = 0
    last: Was | None = None
    for last in moves:
        if count == n:
            return last.new
        count += 1
    if last is not None and count == n and last.old is not None:
        return last.old
    raise IndexError(count)


def at_time(moves: Iterable[Was], time: int) -> str | None:
    """What the ref named at a time. None before its first move."""
    for was in moves:
        if was.time <= time:
            return was.new
    return None
