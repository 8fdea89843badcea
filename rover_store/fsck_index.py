"""Checking the index against git. It repairs holes by itself; what is left was changed by a hand."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rover_store import index_build, layout
from rover_store.errors import StoreError
from rover_store.problems import Problem

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
        if store.index.rollouts({}) != list(store.evidence.ids()):
            yield _wrong("rollouts are not those of the evidence")
        if store.index.ask(lambda db: db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            yield _wrong("file is damaged")
    except (StoreError, sqlite3.Error) as error:
        yield Problem("index", f"cannot be asked: {error}", kind="badIndex", remedy=_REINDEX)


def _contents(store: Store, head: str) -> Iterator[Problem]:
    """Package by package, so that neither side is held whole."""
    objects, root = store.objects, store.revisions.load(head).tree
    packages = dict(store.index.ask(lambda db: db.execute("SELECT name, tree FROM package").fetchall()))
    nodes = store.index.ask(lambda db: db.execute("SELECT name, version FROM node WHERE package = ''").fetchall())
    if packages != layout.package_trees(objects, root):
        yield _wrong("packages are not those of the head")
        return
    wrong = dict(nodes) != {f"resources/{n}": t for n, t in layout.resource_trees(objects, root).items()}
    for name, tree in packages.items():
        nodes, edges = store.index.ask(lambda db, n=name: (  # type: ignore[misc]
            db.execute("SELECT name, version FROM node WHERE package = ?", (n,)).fetchall(),
            db.execute("SELECT source, target, version FROM edge WHERE package = ?", (n,)).fetchall(),
        ))  # fmt: skip
        there = {f"{name}/{c}": t for c, t in layout.entry(objects, name, tree).components.items()}
        real = {e[:2]: e.version for e in index_build.edges_of(name, index_build.package_json(objects, tree))}
        if dict(nodes) != there or {(s, t): v for s, t, v in edges} != real:
            wrong = True
            break
    if wrong:
        yield _wrong("nodes or edges are not those of the head")


def _ancestors(store: Store, head: str) -> set[str]:
    seen, waiting = {head}, [head]
    while waiting:
        fresh = [p for p in store.revisions.load(waiting.pop()).parents if p not in seen]
        seen.update(fresh)
        waiting += fresh
    return seen


def _wrong(what: str) -> Problem:
    return Problem("index", f"its {what}; run `rover reindex`", kind="staleIndex", remedy=_REINDEX)
