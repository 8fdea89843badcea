"""History: commits of a revision or a range, narrowed to packages, components, resources, files, people and words.

The order is that of parents: no commit before its children, whatever the clocks said. Commits come a page at a time,
so that a reader who stops early pays for what was read.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from rover_store.errors import UsageError
from rover_store.history import log_select
from rover_store.history.log_select import Filter, Selected

if TYPE_CHECKING:
    from rover_store.revisions.revision import Range
    from rover_store.store import Store

__all__ = ["Change", "Filter", "LogEntry", "log"]

_PAGE = 200
_ALL = Filter()


class Change(NamedTuple):
    """A package (`NAME`), component (`NAME/task`) or resource (`resources/files/x`) that a commit changed.

    Values are tree ids, None where it does not exist on that side. Compared with the first parent. A log that is
    narrowed to a node lists the changes at and below it.
    """

    node: str
    old: str | None
    new: str | None


class LogEntry(NamedTuple):
    """One commit of the log. `more`: changes left out by `Filter.changes`. `renamed`: the package's name before."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: str
    time: int
    message: str
    changes: tuple[Change, ...]
    more: int = 0
    renamed: str | None = None

    @property
    def subject(self) -> str:
        return self.message.partition("\n")[0]


def log(store: Store, rev: str = "HEAD", wanted: Filter = _ALL, limit: int | None = None) -> Iterator[LogEntry]:
    """Commits of a revision, of `A..B`, `A...B` or several of them, children before parents.

    NotFound and Ambiguous for what a revision does not name, UsageError for a pattern that is none.
    """
    for pattern in (wanted.author, wanted.grep):
        _compiled(pattern)
    if not rev.strip():
        raise UsageError("an empty word names no revision", hint="HEAD is the newest commit")
    if rev in ("HEAD", "@") and store.refs.head_id() is None:
        return iter(())
    start = store.revisions.range(rev)
    if wanted.reverse and limit is not None:
        newest = list(_stream(store, start, wanted._replace(reverse=False), limit))
        return reversed(newest)
    return _stream(store, start, wanted, limit)


def _stream(store: Store, start: Range, wanted: Filter, limit: int | None) -> Iterator[LogEntry]:
    selected = log_select.select(store, start, wanted)
    names = {s.above: s.renamed for s in selected if s.renamed}
    pages = _Pages(store, start, wanted, selected)
    left = limit
    while left is None or left > 0:
        page = pages.next(_PAGE if left is None else min(_PAGE, left))
        if page is None:
            return
        for entry in page[:left]:
            yield entry._replace(renamed=names.get(entry.id)) if entry.id in names else entry
        left = None if left is None else left - len(page)


class _Pages:
    """Where a log stands. Places are kept as commit ids: the index may be built anew meanwhile."""

    def __init__(self, store: Store, start: Range, wanted: Filter, selected: list[Selected]) -> None:
        self._store = store
        self._start = start
        self._wanted = wanted
        self._selected = selected
        self._last: str | None = None
        self._ids: list[str] | None = None  # all commits of the log, where it is not the plain one of HEAD
        self._at = 0
        self._done = False

    def next(self, size: int) -> list[LogEntry] | None:
        """The next entries; None at the end. A page may be empty: what was looked at did not fit."""
        if self._done:
            return None
        if self._ids is None and not self._plain():
            self._ids = log_select.ids(self._store, self._start, self._wanted, self._selected)
            self._at = self._ids.index(self._last) + 1 if self._last in self._ids else 0
        if self._ids is None:
            found = self._store.index.ask(lambda db: self._page(db, size, None))
        else:
            part = self._ids[self._at : self._at + size]
            self._at += size
            if not part:
                return None
            found = self._store.index.ask(lambda db: self._page(db, size, part))
        if found is None:  # HEAD moved since: the commits are those that it had
            self._start_over()
            return []
        rows, entries = found
        if self._ids is None:
            self._done = len(rows) < size
        self._last = rows[-1] if rows else self._last
        return [e for e in entries if log_select.differs(self._store, self._selected, e)]

    def _plain(self) -> bool:
        start = self._start
        return len(start.include) == 1 and not start.exclude and not self._wanted.first_parent and (
            self._store.refs.head_id() == start.include[0]
        )

    def _start_over(self) -> None:
        self._ids = log_select.ids(self._store, self._start, self._wanted, self._selected)
        self._at = self._ids.index(self._last) + 1 if self._last in self._ids else 0

    def _page(
        self, db: sqlite3.Connection, size: int, ids: list[str] | None
    ) -> tuple[list[str], list[LogEntry]] | None:
        where, values = log_select.conditions(db, self._wanted, self._selected)
        if ids is not None:
            where.append("h.id IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(ids))
        else:
            if log_select.head(db) != self._start.include[0]:
                return None
            where.append("h.shown")
            if self._last is not None:
                where.append(f"h.seq {'>' if self._wanted.reverse else '<'} (SELECT seq FROM history WHERE id = ?)")
                values.append(self._last)
        order = "ASC" if self._wanted.reverse else "DESC"
        sql = f"""SELECT h.seq, h.id, h.tree, h.author, h.time, h.subject, h.body FROM history h
        WHERE {' AND '.join(where)} ORDER BY h.seq {order} LIMIT ?"""
        rows = db.execute(sql, (*values, size)).fetchall()
        return [row[1] for row in rows], [_entry(db, row, self._selected, self._wanted.changes) for row in rows]


def _entry(
    db: sqlite3.Connection, row: tuple[int, str, str, str, int, str, str | None], selected: list[Selected],
    most: int | None,
) -> LogEntry:  # fmt: skip
    seq, commit, tree, author, time, subject, body = row
    parents = db.execute(
        "SELECT id FROM parent JOIN history ON history.seq = parent.parent WHERE child = ? ORDER BY position", (seq,)
    ).fetchall()
    sql, values = log_select.below(db, selected, seq)
    found = db.execute(f"{sql} ORDER BY node LIMIT ?", (*values, -1 if most is None else most)).fetchall()
    more = 0
    if most is not None and len(found) == most:
        more = db.execute(f"SELECT count(*) FROM ({sql})", values).fetchone()[0] - len(found)
    message = subject if body is None else f"{subject}\n{body}"
    changes = tuple(Change(*c) for c in found)
    return LogEntry(commit, tree, tuple(p for (p,) in parents), author, time, message, changes, more)


def _compiled(pattern: str | None) -> None:
    try:
        re.compile(pattern or "")
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"{pattern!r} is not a regular expression: {error}") from None
