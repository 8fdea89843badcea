"""The versions of one file, from the newest back, for `blame`: only commits that changed its component are opened.

The index knows which commits changed a component compared with their first parent. Between two of them the walk jumps
along the first parents; a merge is entered on every side.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from rover_store.history.ancestry import Numbers
from rover_store.objects import Objects
from rover_store.packs import BLOB
from rover_store.trees import TreeItem

#: what stands at some places in one version -> where it stood in another; what is not there did not stand there
Passed = Callable[[bytes, bytes, Iterable[Any]], dict[Any, Any]]
#: a commit's number -> the node and path that a renamed package had before it
Older = Callable[[int, str, str], tuple[str, str] | None]


class Walk:
    """Versions of one file of a node (a component, package or resource). `older`: renames are followed by it."""

    def __init__(
        self, objects: Objects, numbers: Numbers, node: str, path: str, older: Older | None = None
    ) -> None:
        self._objects = objects
        self._numbers = numbers
        self._node = node
        self._path = path
        self._older = older

    def blame(self, start: int, keys: Iterable[Hashable], passed: Passed) -> dict[Hashable, int]:
        """Key at `start` -> number of the commit that it came with."""
        waiting: dict[int, dict[Hashable, Hashable]] = {start: {key: key for key in keys}}
        heap = [-start]
        found: dict[Hashable, int] = {}
        while heap:
            here = -heapq.heappop(heap)
            open_ = waiting.pop(here)  # key at the start -> key here
            changed = self._last_change(here)
            if changed != here:  # another child of that commit may have got there too
                self._push(changed, open_, waiting, heap)
                continue
            blob = self._blob(here)
            for parent in self._numbers.parents(here):
                went, open_ = self._passed(blob, self._blob(parent), open_, passed)
                self._push(parent, went, waiting, heap)
            if open_ and self._older is not None:
                open_ = self._renamed(here, blob, open_, passed, found)
            found.update((key, here) for key in open_)
        return found

    def _renamed(
        self, here: int, blob: str | None, keys: dict[Hashable, Hashable], passed: Passed, found: dict[Hashable, int]
    ) -> dict[Hashable, Hashable]:
        """Look for keys under the name before `here`, where the package got another. Those that came with `here`."""
        before = self._older(here, self._node, self._path) if self._older is not None else None
        if before is None:
            return keys
        walk = Walk(self._objects, self._numbers, *before, self._older)
        for parent in self._numbers.parents(here):
            went, keys = self._passed(blob, walk._blob(parent), keys, passed)
            came = walk.blame(parent, {*went.values()}, passed) if went else {}
            found.update((key, came[k]) for key, k in went.items())
        return keys

    def _passed(
        self, blob: str | None, old: str | None, keys: dict[Hashable, Hashable], passed: Passed
    ) -> tuple[dict[Hashable, Hashable], dict[Hashable, Hashable]]:
        """Keys that stood in an older version, with their place there, and those that did not."""
        if old is None or not keys:
            return {}, keys
        there = {k: k for k in keys.values()}
        if old != blob:
            there = passed(self._read(blob), self._read(old), keys.values())
        went = {key: there[k] for key, k in keys.items() if k in there}
        return went, {key: k for key, k in keys.items() if key not in went}

    def data(self, number: int) -> bytes:
        """Bytes of the file at a commit; empty where it is none."""
        return self._read(self._blob(number))

    @staticmethod
    def _push(
        number: int, keys: dict[Hashable, Hashable], waiting: dict[int, dict[Hashable, Hashable]], heap: list[int]
    ) -> None:
        if keys:
            if number not in waiting:
                heapq.heappush(heap, -number)
            waiting.setdefault(number, {}).update(keys)

    def _last_change(self, number: int) -> int:
        """The nearest commit on the line of first parents, this one included, that changed the node."""
        while not self._numbers.indexed(number):
            parents = self._numbers.parents(number)
            if not parents or self._blob(number) != self._blob(parents[0]) or len(parents) > 1:
                return number
            number = parents[0]
        row = self._numbers.db.execute(
            """WITH RECURSIVE line(seq) AS (VALUES (?) UNION ALL
            SELECT parent FROM parent JOIN line ON child = line.seq WHERE position = 0)
            SELECT seq FROM line
            WHERE EXISTS (SELECT 1 FROM change WHERE change.seq = line.seq AND node = ?) LIMIT 1""",
            (number, self._node),
        ).fetchone()
        return number if row is None else int(row[0])

    def _blob(self, number: int) -> str | None:
        tree = self._numbers.tree(number)
        item: TreeItem | None = self._objects.subtree(tree, self._path)
        return item.id if item is not None and not item.is_folder else None

    def _read(self, blob: str | None) -> bytes:
        if blob is None:
            return b""
        kind, data = self._objects.get(blob)
        return data if kind == BLOB else b""
