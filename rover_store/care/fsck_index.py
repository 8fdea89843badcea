"""Checking the index against git. It repairs holes by itself; what is left was changed by a hand."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rover_store import layout
from rover_store.care.problems import Problem
from rover_store.errors import StoreError
from rover_store.index import build as index_build
from rover_store.index.rows import edges_of
from rover_store.names import rollout_path

if TYPE_CHECKING:
    from rover_store.store import Store

_REINDEX = "rover reindex"


def check_index(store: Store) -> Iterator[Problem]:
    """Packages, nodes, edges, history and rollouts, as the index has them and as git does."""
    head = store.refs.head_id()
    if head is None:
        return
    try:
        yield from _contents(store, head)
        rows = store.index.ask(lambda db: db.execute("SELECT id FROM history WHERE shown").fetchall())
        if {row[0] for row in rows} != _ancestors(store, head):
            yield _wrong("history is not that of the head")
        there, indexed = set(store.evidence.ids()), set(store.index.rollouts({}))
        if any(_has_record(store, rollout) for rollout in there ^ indexed):  # one without is told with the evidence
            yield _wrong("rollouts are not those of the evidence")
        if store.index.ask(lambda db: db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            yield _wrong("file is damaged")
    except (StoreError, sqlite3.Error) as error:
        yield Problem("index", f"cannot be asked: {error}", kind="badIndex", remedy=_REINDEX)


def _contents(store: Store, head: str) -> Iterator[Problem]:
    """Rows are summed on both sides, so that neither is held whole: equal sums of their hashes are equal rows."""
    objects, root = store.objects, store.revisions.load(head).tree
    packages, nodes, edges = _Sum(), _Sum(), _Sum()
    for name, tree in layout.package_trees(objects, root).items():
        packages.add((name, tree))
        for component, version in layout.entry(objects, name, tree).components.items():
            nodes.add((f"{name}/{component}", version))
        rows = edges_of(name, index_build.package_json(objects, tree))
        for edge in {row[:2]: row for row in rows}.values():
            edges.add(tuple(edge))
    for name, tree in layout.resource_trees(objects, root).items():
        nodes.add((f"resources/{name}", tree))
    if _indexed(store, "SELECT name, tree FROM package") != packages:
        yield _wrong("packages are not those of the head")
        return
    tables = ("SELECT name, version FROM node", "SELECT source, target, version FROM edge")
    if [_indexed(store, sql) for sql in tables] != [nodes, edges]:
        yield _wrong("nodes or edges are not those of the head")


class _Sum:
    """A set of rows as a number: the count and the sum of their hashes."""

    def __init__(self) -> None:
        self.value = 0

    def add(self, row: tuple[str, ...]) -> None:
        self.value += (1 << 70) + hash(row)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Sum) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]


def _indexed(store: Store, sql: str) -> _Sum:
    def question(db: sqlite3.Connection) -> _Sum:
        found = _Sum()
        for row in db.execute(sql):
            found.add(tuple(row))
        return found

    return store.index.ask(question)


def _has_record(store: Store, rollout: str) -> bool:
    root = store.evidence.root()
    place = f"{rollout_path(rollout)}/trajectory.json"
    return root is None or store.evidence.objects.subtree(root, place) is not None


def _ancestors(store: Store, head: str) -> set[str]:
    seen, waiting = {head}, [head]
    while waiting:
        fresh = [p for p in store.revisions.load(waiting.pop()).parents if p not in seen]
        seen.update(fresh)
        waiting += fresh
    return seen


def _wrong(what: str) -> Problem:
    return Problem("index", f"its {what}; run `rover reindex`", kind="staleIndex", remedy=_REINDEX)
