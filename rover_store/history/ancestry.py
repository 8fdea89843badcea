"""Questions about the shape of history: common ancestors, ranges, the first-parent line, and its middle.

Commit times are never looked at: clocks go backwards. The order is that of the index's numbers, which grow from
parents to children; commits that the index does not know are walked in git and numbered above, for this question.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from rover_store.commits import Commit
from rover_store.errors import UsageError

if TYPE_CHECKING:
    from rover_store.revisions.revision import Range
    from rover_store.store import Store

T = TypeVar("T")
_LEFT, _RIGHT, _STALE = 1, 2, 4
_WANTED, _BARRED = 1, 2


class Sides(NamedTuple):
    """What two commits do not share, the newest first: reachable from one and not from the other."""

    left: list[str]
    right: list[str]


class Step(NamedTuple):
    """Where a bisection goes on: the commit to try, and how many may be the first bad one still."""

    commit: str | None  # None: nothing is left to try, `first` is the answer
    left: int
    first: str


def merge_bases(store: Store, a: str, b: str) -> list[str]:
    """Best common ancestors of two commits, sorted by id; empty for unrelated histories.

    Best: not the ancestor of another common ancestor. A commit is its own ancestor.
    """
    def question(graph: Numbers) -> list[str]:
        flags: dict[int, int] = {}
        for commit, flag in ((a, _LEFT), (b, _RIGHT)):
            here = graph.number(commit)
            flags[here] = flags.get(here, 0) | flag
        queue = _Queue(flags)
        fresh = len(flags)  # waiting, and not known to lie below a common ancestor
        found = []
        while fresh:
            here = queue.pop()
            mine = flags[here]
            fresh -= 0 if mine & _STALE else 1
            if mine == _LEFT | _RIGHT:
                found.append(here)
                mine |= _STALE  # what lies below is common too, but not best
            for parent in graph.parents(here):
                before = flags.get(parent)
                flags[parent] = after = mine | (before or 0)
                if before is None:
                    queue.add(parent)
                    fresh += 0 if after & _STALE else 1
                elif after & _STALE and not before & _STALE:
                    fresh -= 1
        return sorted(graph.id(n) for n in found)

    return ask(store, question)


def is_ancestor(store: Store, a: str, b: str) -> bool:
    """Whether `a` is `b` or an ancestor of it."""
    def question(graph: Numbers) -> bool:
        target, start = graph.number(a), graph.number(b)
        queue = _Queue([start])
        while queue:
            here = queue.pop()
            if here <= target:
                return here == target
            for parent in graph.parents(here):
                queue.add(parent)
        return False

    return a == b or ask(store, question)


def between(store: Store, exclude: Iterable[str], include: Iterable[str]) -> Iterator[str]:
    """Commits reachable from `include` and not from `exclude`, the newest first: no parent before its child."""
    barred, wanted = list(exclude), list(include)

    def question(graph: Numbers) -> list[str]:
        flags: dict[int, int] = {}
        for ids, flag in ((wanted, _WANTED), (barred, _BARRED)):
            for commit in ids:
                here = graph.number(commit)
                flags[here] = flags.get(here, 0) | flag
        queue = _Queue(flags)
        open_ = sum(1 for f in flags.values() if not f & _BARRED)  # waiting, and not known to be barred
        out = []
        while queue and open_:
            here = queue.pop()
            mine = flags[here]
            if not mine & _BARRED:
                open_ -= 1
                out.append(here)
            for parent in graph.parents(here):
                before = flags.get(parent)
                flags[parent] = mine | (before or 0)
                if before is None:
                    queue.add(parent)
                    open_ += 0 if mine & _BARRED else 1
                elif mine & _BARRED and not before & _BARRED:
                    open_ -= 1
        return [graph.id(n) for n in out]

    return iter(ask(store, question))


def sides(store: Store, a: str, b: str) -> Sides:
    """The symmetric difference of two histories, `a...b` in git's words."""
    return Sides(list(between(store, [b], [a])), list(between(store, [a], [b])))


def commits(store: Store, wanted: Range) -> Iterator[str]:
    """Commits of a range as `Revisions.range` reads it, the newest first."""
    exclude = list(wanted.exclude)
    if wanted.symmetric:
        exclude += merge_bases(store, *wanted.include)
    return between(store, exclude, wanted.include)


def first_parents(store: Store, rev: str = "HEAD") -> Iterator[Commit]:
    """A commit, its first parent, and so on to the beginning."""
    here: str | None = store.resolve(rev)
    while here is not None:
        commit = store.revisions.load(here)
        yield commit
        here = commit.parents[0] if commit.parents else None


def bisect_order(store: Store, good: str, bad: str, skipped: Sequence[str] = ()) -> Step:
    """The next commit to try between a good and a bad one, on the bad one's line of first parents.

    Commits in `skipped` cannot be tried; the nearest other one to the middle is taken. UsageError where `good` is
    not on that line before `bad`.
    """
    good, bad = store.resolve(good), store.resolve(bad)
    line = []
    for commit in first_parents(store, bad):
        if commit.id == good:
            break
        line.append(commit.id)
    else:
        raise UsageError(f"{good[:12]} is not on the first-parent line of {bad[:12]}")
    if not line:
        raise UsageError(f"{good[:12]} is both good and bad")
    middle = len(line) / 2
    open_ = [i for i in range(1, len(line)) if line[i] not in set(skipped)]
    best = min(open_, key=lambda i: (abs(i - middle), i), default=None)
    return Step(None if best is None else line[best], len(line), line[0])


class _Queue:
    """Numbers, each taken once, the highest first."""

    def __init__(self, start: Iterable[int]) -> None:
        self._seen = set(start)
        self._heap = [-n for n in self._seen]
        heapq.heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, number: int) -> None:
        if number not in self._seen:
            self._seen.add(number)
            heapq.heappush(self._heap, -number)

    def pop(self) -> int:
        return -heapq.heappop(self._heap)


class Numbers:
    """Commits as numbers: parents below their children."""

    def __init__(self, store: Store, db: sqlite3.Connection) -> None:
        self.db = db
        self._load = store.revisions.load
        self._fresh: dict[str, int] = {}
        self._above: dict[int, tuple[str, tuple[int, ...]]] = {}
        self._last: int = db.execute("SELECT coalesce(max(seq), 0) FROM history").fetchone()[0]

    def number(self, commit: str) -> int:
        """Number of a commit. NotFound if the repository does not hold it."""
        waiting = [commit]
        while waiting:
            here = waiting[-1]
            if self._known(here) is None:
                parents = self._load(here).parents
                missing = [p for p in parents if self._known(p) is None]
                if missing:
                    waiting += missing
                    continue
                self._last += 1
                self._fresh[here] = self._last
                self._above[self._last] = (here, tuple(self.number(p) for p in parents))
            waiting.pop()
        found = self._known(commit)
        assert found is not None
        return found

    def parents(self, number: int) -> tuple[int, ...]:
        if number in self._above:
            return self._above[number][1]
        rows = self.db.execute("SELECT parent FROM parent WHERE child = ? ORDER BY position", (number,))
        return tuple(p for (p,) in rows)

    def id(self, number: int) -> str:
        if number in self._above:
            return self._above[number][0]
        return str(self.db.execute("SELECT id FROM history WHERE seq = ?", (number,)).fetchone()[0])

    def tree(self, number: int) -> str:
        if number in self._above:
            return self._load(self._above[number][0]).tree
        return str(self.db.execute("SELECT tree FROM history WHERE seq = ?", (number,)).fetchone()[0])

    def indexed(self, number: int) -> bool:
        """Whether the index knows the commit, and so what it changed."""
        return number not in self._above

    def _known(self, commit: str) -> int | None:
        if commit not in self._fresh:
            row = self.db.execute("SELECT seq FROM history WHERE id = ?", (commit,)).fetchone()
            return None if row is None else int(row[0])
        return self._fresh[commit]


def ask(store: Store, question: Callable[[Numbers], T]) -> T:
    """Answer a question about numbered commits from one state of the index."""
    return store.index.ask(lambda db: question(Numbers(store, db)))
