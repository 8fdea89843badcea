"""The index: history, contents and evidence in SQLite, for questions that git answers slowly.

Git is the only truth. The index remembers which heads it shows; every question first brings it from there to
where the refs are. A missing, foreign or garbage file is built again without a word; where nothing can be written,
the index lives in memory for as long as the process.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rover_store import index_build
from rover_store.errors import NotFound, StoreError
from rover_store.graph import Dependency
from rover_store.index_tables import TABLES, VERSION
from rover_store.layout import PackageEntry
from rover_store.objects import Objects
from rover_store.refs import EVIDENCE, Refs

if TYPE_CHECKING:
    from rover_store.store import Store

T = TypeVar("T")
_BUSY = ("locked", "busy")
_CLOSED = ("readonly", "unable to open", "full")


class Index:
    """The index of one store."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store = store
        self._path = path
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        self._pid = 0
        git = store.folder / "evidence.git"
        self._evidence, self._evidence_refs = Objects(git), Refs(git)

    # --- bringing it up to date --------------------------------------------------------------------------
    def sync(self) -> None:
        """Show what the refs name now."""
        self.ask(lambda db: None)

    def rebuild(self) -> None:
        """Build everything again from the two repositories."""
        with self._lock:
            self._drop()
            self.sync()

    def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Answer a question from an index that is up to date."""
        with self._lock:
            for attempt in range(3):
                try:
                    db = self._open()
                    self._catch_up(db)
                    return question(db)
                except sqlite3.DatabaseError as error:
                    text = str(error)
                    if any(word in text for word in _BUSY):
                        raise StoreError(f"the index is busy: {text}", hint="another rover is writing") from None
                    if attempt == 2:
                        raise StoreError(f"the index cannot be built: {text}") from None
                    self._drop(memory=any(word in text for word in _CLOSED))
            raise AssertionError

    def transaction(self, db: sqlite3.Connection) -> AbstractContextManager[None]:
        """All or nothing, one writer at a time."""
        return _transaction(db)

    def shown_head(self, db: sqlite3.Connection) -> str | None:
        return _meta(db, "head")

    # --- questions ---------------------------------------------------------------------------------------
    def packages(self, pattern: str) -> list[PackageEntry]:
        """Packages of the current head whose name matches a glob."""
        pattern = pattern.replace("[!", "[^")

        def question(db: sqlite3.Connection) -> list[PackageEntry]:
            found = {
                name: PackageEntry(name, tree, {})
                for name, tree in db.execute(
                    "SELECT name, tree FROM package WHERE name GLOB ? ORDER BY name", (pattern,)
                )
            }
            sql = "SELECT package, name, version FROM node WHERE package GLOB ? AND package != ''"
            rows = db.execute(sql, (pattern,))
            for package, name, version in rows:
                if package in found:
                    found[package].components[name.rpartition("/")[2]] = version
            return list(found.values())

        return [p._replace(components=_in_order(p.components)) for p in self.ask(question)]

    def graph(self) -> tuple[list[Dependency], dict[str, str]]:
        """Edges of the current head, and the present version of every node."""
        def question(db: sqlite3.Connection) -> tuple[list[Dependency], dict[str, str]]:
            edges = [Dependency(*row) for row in db.execute("SELECT source, target, version FROM edge ORDER BY 1, 2")]
            return edges, dict(db.execute("SELECT name, version FROM node ORDER BY name").fetchall())

        return self.ask(question)

    def closure(self, nodes: list[str]) -> list[str]:
        """The nodes and their transitive dependents at the current head: only the affected part is read."""
        def question(db: sqlite3.Connection) -> list[str]:
            found: set[str] = set(nodes)
            for start in nodes:
                rows = db.execute(
                    """WITH RECURSIVE up(name) AS (VALUES (?) UNION
                    SELECT source FROM edge JOIN up ON edge.target = up.name) SELECT name FROM up""",
                    (start,),
                )
                found.update(name for (name,) in rows)
            return sorted(found)

        return self.ask(question)

    def rollouts(self, wanted: Mapping[str, str]) -> list[str]:
        """Ids of the rollouts whose columns have these values, sorted."""
        where, values = _where(wanted)
        sql = f"SELECT id FROM rollout{where} ORDER BY 1"
        return [rollout for (rollout,) in self.ask(lambda db: db.execute(sql, values).fetchall())]

    def matching_rollouts(self, prefix: str) -> list[str]:
        """Ids of the rollouts that begin with some hex digits, sorted."""
        sql = "SELECT id FROM rollout WHERE id >= ? AND id < ? ORDER BY 1"
        return [rollout for (rollout,) in self.ask(lambda db: db.execute(sql, (prefix, prefix + "g")).fetchall())]

    def verdicts(self, wanted: Mapping[str, str]) -> list[tuple[str, str]]:
        """(rollout, verifier) of the verdicts whose columns have these values, sorted."""
        where, values = _where(wanted)
        sql = f"SELECT rollout, verifier FROM verdict{where} ORDER BY 1, 2"
        return self.ask(lambda db: db.execute(sql, values).fetchall())

    # --- within ------------------------------------------------------------------------------------------
    def _open(self) -> sqlite3.Connection:
        if self._db is not None and self._pid == os.getpid():
            return self._db
        self._db = _connect(str(self._path))  # a forked child never uses its parent's connection
        self._pid = os.getpid()
        return self._db

    def _drop(self, *, memory: bool = False) -> None:
        if self._db is not None and self._pid == os.getpid():
            with contextlib.suppress(sqlite3.Error):
                self._db.close()
        self._db = None
        if memory:
            self._db, self._pid = _connect(":memory:"), os.getpid()
            return
        with self._store.lock:
            for suffix in ("", "-wal", "-shm", "-journal"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{self._path}{suffix}")

    def _catch_up(self, db: sqlite3.Connection) -> None:
        head, evidence = self._store.refs.head_id(), self._evidence_refs.get(EVIDENCE)
        tables = db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()[0]
        if tables and _meta(db, "version") == VERSION and _shown(db) == (head, evidence):
            return
        with _transaction(db):
            if not db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()[0]:
                for statement in filter(str.strip, TABLES.split(";")):
                    db.execute(statement)
                _set(db, "version", VERSION)
            if _meta(db, "version") != VERSION:
                raise sqlite3.DatabaseError("index of another version")
            # the refs may have moved while the transaction was waited for; what is shown is read again inside it
            self._show(db, self._store.refs.head_id())
            self._show_evidence(db, self._evidence_refs.get(EVIDENCE))

    def _show(self, db: sqlite3.Connection, head: str | None) -> None:
        shown = _meta(db, "head")
        if shown == head:
            return
        load, objects = self._store.revisions.load, self._store.objects
        seq = index_build.add_history(db, objects, load, head) if head else None
        row = db.execute("SELECT seq, tree FROM history WHERE id = ?", (shown,)).fetchone() if shown else None
        if shown and row is None:
            raise sqlite3.DatabaseError("the shown head is unknown")
        index_build.show_head(db, seq, row[0] if row else None)
        if seq is not None:
            db.execute("UPDATE history SET shown = 1 WHERE seq = ?", (seq,))
        index_build.show_contents(db, objects, row[1] if row else None, load(head).tree if head else None)
        _set(db, "head", head)

    def _show_evidence(self, db: sqlite3.Connection, head: str | None) -> None:
        shown = _meta(db, "evidence")
        if shown == head:
            return
        old, new = (self._evidence_tree(h) for h in (shown, head))
        if shown and old is None:  # the evidence was pruned away under the index
            db.execute("DELETE FROM rollout")
            db.execute("DELETE FROM verdict")
        index_build.show_evidence(db, self._evidence, old, new)
        _set(db, "evidence", head)

    def _evidence_tree(self, head: str | None) -> str | None:
        if head is None:
            return None
        from rover_store.commits import parse_commit

        try:
            return parse_commit(head, self._evidence.read_commit(head)).tree
        except NotFound:
            return None


def _connect(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
    except sqlite3.Error:
        db.close()
        raise
    return db


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _meta(db: sqlite3.Connection, key: str) -> str | None:
    row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def _shown(db: sqlite3.Connection) -> tuple[str | None, str | None]:
    return _meta(db, "head"), _meta(db, "evidence")


def _set(db: sqlite3.Connection, key: str, value: str | None) -> None:
    db.execute("DELETE FROM meta WHERE key = ?", (key,))
    if value is not None:
        db.execute("INSERT INTO meta VALUES (?, ?)", (key, value))


def _where(wanted: Mapping[str, str]) -> tuple[str, list[str]]:
    if not wanted:
        return "", []
    return " WHERE " + " AND ".join(f"{column} = ?" for column in wanted), list(wanted.values())


def _in_order(components: dict[str, str]) -> dict[str, str]:
    return {c: components[c] for c in ("context", "task", "harness", "verifier") if c in components}
