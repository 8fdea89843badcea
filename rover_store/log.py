"""History: commits of a revision, of one package, component or resource, the newest first."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from rover_store import index_build
from rover_store.index import Index
from rover_store.objects import Objects
from rover_store.revision import Revisions

_PAGE = 200


class Change(NamedTuple):
    """A package (`NAME`), component (`NAME/task`) or resource (`resources/files/x`) that a commit changed.

    Values are tree ids, None where it does not exist on that side. Compared with the first parent. A log that is
    narrowed to a node lists the changes at and below it.
    """

    node: str
    old: str | None
    new: str | None


class LogEntry(NamedTuple):
    """One commit of the log."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: str
    time: int
    message: str
    changes: tuple[Change, ...]

    @property
    def subject(self) -> str:
        return self.message.partition("\n")[0]


class Filter(NamedTuple):
    """What a log is narrowed to. `node` is a glob over NAME, NAME/component, resources/KIND/NAME."""

    node: str | None = None
    since: int | None = None
    until: int | None = None


def log(
    index: Index, objects: Objects, revisions: Revisions, head: str, wanted: Filter, limit: int | None
) -> Iterator[LogEntry]:
    """Commits reachable from `head`, children before parents, fetched a page at a time."""
    before: int | None = None
    left = limit
    while left is None or left > 0:
        size = _PAGE if left is None else min(_PAGE, left)
        page = index.ask(lambda db, b=before, n=size: _page(db, index, objects, revisions, head, wanted, b, n))  # type: ignore[misc]
        for _, entry in page:
            yield entry
        if len(page) < size:
            return
        before = page[-1][0]
        left = None if left is None else left - len(page)


def _page(
    db: sqlite3.Connection, index: Index, objects: Objects, revisions: Revisions, head: str, wanted: Filter,
    before: int | None, size: int,
) -> list[tuple[int, LogEntry]]:  # fmt: skip
    prefix, where, values = "", ["h.shown"], []
    if index.shown_head(db) != head:
        with index.transaction(db):  # the history of any commit is a fact that stays true: it may be added
            seq = index_build.add_history(db, objects, revisions.load, head)
        prefix = "WITH RECURSIVE up(seq) AS (VALUES (?) UNION SELECT parent FROM parent JOIN up ON child = up.seq) "
        where, values = ["h.seq IN up"], [seq]
    rows = _select(db, prefix, where, values, wanted, before, size)
    return [(row[0], _entry(db, row, wanted.node)) for row in rows]


def _select(
    db: sqlite3.Connection, prefix: str, where: list[str], start: list[int], wanted: Filter, before: int | None,
    size: int,
) -> list[tuple[int, str, str, str, int, str]]:  # fmt: skip
    values: list[int | str] = list(start)
    source = "history h"
    if wanted.node is not None:
        match = f"node {'=' if _exact(wanted.node) else 'GLOB'} ?"
        source = f"(SELECT DISTINCT seq FROM change WHERE {match}) c JOIN history h ON h.seq = c.seq"
        values.append(wanted.node)
    for clause, value in (("h.time >= ?", wanted.since), ("h.time <= ?", wanted.until), ("h.seq < ?", before)):
        if value is not None:
            where.append(clause)
            values.append(value)
    sql = f"{prefix}SELECT h.seq, h.id, h.tree, h.author, h.time, h.message FROM {source} WHERE {' AND '.join(where)}"
    return db.execute(f"{sql} ORDER BY h.seq DESC LIMIT ?", (*values, size)).fetchall()


def _entry(db: sqlite3.Connection, row: tuple[int, str, str, str, int, str], node: str | None) -> LogEntry:
    seq, commit, tree, author, time, message = row
    parents = db.execute(
        "SELECT id FROM parent JOIN history ON history.seq = parent.parent WHERE child = ? ORDER BY position", (seq,)
    ).fetchall()
    changes = [Change(*c) for c in _changes(db, seq, node)]
    return LogEntry(commit, tree, tuple(p for (p,) in parents), author, time, message, tuple(changes))


def _changes(db: sqlite3.Connection, seq: int, node: str | None) -> list[tuple[str, str | None, str | None]]:
    """What a commit changed; of a narrowed log, at and below the node: a commit may add thousands of packages."""
    where, values = "seq = ?", [seq, node, f"{node}/*"]
    if node is None:
        values = [seq]
    elif _exact(node):
        where, values = "seq = ? AND (node = ? OR (node > ? AND node < ?))", [seq, node, f"{node}/", f"{node}0"]
    else:
        where += " AND (node GLOB ? OR node GLOB ?)"
    return db.execute(f"SELECT node, old, new FROM change WHERE {where} ORDER BY node", values).fetchall()


def _exact(node: str) -> bool:
    return not any(c in node for c in "*?[")
