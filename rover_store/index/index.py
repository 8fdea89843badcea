"""The index: history, contents and evidence in SQLite, for questions that git answers slowly.

Git is the only truth. The index remembers which heads it shows; every question first brings it from there to
where the refs are, and is then answered from one state of it. A missing, foreign or garbage file is built again
without a word; where nothing can be written, the index lives in memory for as long as the process.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rover_store.errors import StoreError
from rover_store.graph import Dependency
from rover_store.index import build as index_build
from rover_store.index.build import Foreign, Source, meta
from rover_store.index.rows import Trees
from rover_store.index.tables import TABLES, VERSION
from rover_store.layout import PackageEntry
from rover_store.names import COMPONENTS
from rover_store.objects import Objects
from rover_store.refs import Refs

if TYPE_CHECKING:
    from rover_store.store import Store

T = TypeVar("T")
_BUSY = ("locked", "busy")
_CLOSED = ("readonly", "unable to open", "full", "disk I/O error")
#: another process may be building the index of a large store
_PATIENCE_S = 600.0
_Place = tuple[int, int]


class Index:
    """The index of one store."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store = store
        self._path = path
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        self._pid = 0
        self._place: _Place | None = None  # device and inode of the open file
        git = store.folder / "evidence.git"
        self._source = Source(store, Objects(git), Refs(git))

    @property
    def in_memory(self) -> bool:
        """Whether it is built for this process alone, because its file cannot be written."""
        return self._db is not None and self._place is None

    @property
    def path(self) -> Path:
        return self._path

    @property
    def trees(self) -> Trees:
        """Trees of the packages, as the index compares them."""
        return self._source.trees

    @property
    def source(self) -> Source:
        """The two repositories, for what is built from them like the index."""
        return self._source

    # --- bringing it up to date --------------------------------------------------------------------------
    def sync(self, *, patience: float = _PATIENCE_S) -> None:
        """Show what the refs name now. StoreError where other processes keep it busy for so many seconds."""
        self.ask(lambda db: None, patience=patience)

    def rebuild(self) -> None:
        """Build everything again from the two repositories."""
        with self._lock:
            self._drop()
            self._remove(None)
            self.sync()

    def ask(
        self, question: Callable[[sqlite3.Connection], T], *, refs: bool = False, patience: float = _PATIENCE_S
    ) -> T:
        """Answer a question from one state of an index that is up to date; `refs`: with branches and operations.

        A question within a question is answered from the same state.
        """
        with self._lock:
            if self._db is not None and self._pid == os.getpid() and self._db.in_transaction:
                return question(self._db)
            failed, end = 0, time.monotonic() + patience
            while True:
                try:
                    db = self._open()
                    self._catch_up(db, refs)
                    with _transaction(db, "DEFERRED"):
                        return question(db)
                except (sqlite3.DatabaseError, Foreign) as error:
                    text = str(error)
                    if any(word in text for word in _BUSY):
                        if time.monotonic() > end:
                            raise StoreError(f"the index is busy: {text}", hint="another rover is writing") from None
                        time.sleep(0.002)
                        continue
                    failed += 1
                    if failed == 3:
                        raise StoreError(f"the index cannot be built: {text}", hint="rover fsck") from None
                    self._start_over(self._place, writable=not any(word in text for word in _CLOSED))

    # --- questions ---------------------------------------------------------------------------------------
    def packages(self, commit: str, pattern: str) -> list[PackageEntry] | None:
        """Packages whose name matches a glob; None where another commit than this one is the head by now."""
        sql = f"SELECT name, tree, {', '.join(COMPONENTS)} FROM package WHERE name GLOB ? ORDER BY name"
        values = (pattern.replace("[!", "[^"),)
        rows = self.ask(lambda db: db.execute(sql, values).fetchall() if meta(db, "head") == commit else None)
        return rows and [
            PackageEntry(name, tree, {c: v for c, v in zip(COMPONENTS, versions, strict=True) if v is not None})
            for name, tree, *versions in rows
        ]

    def graph(self, commit: str) -> tuple[list[Dependency], dict[str, str]] | None:
        """Edges, and the present version of every node; None where another commit is the head by now."""
        def question(db: sqlite3.Connection) -> tuple[list[Dependency], dict[str, str]] | None:
            if meta(db, "head") != commit:
                return None
            edges = [Dependency(*row) for row in db.execute("SELECT source, target, version FROM edge ORDER BY 1, 2")]
            return edges, dict(db.execute("SELECT name, version FROM node ORDER BY name").fetchall())

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
            if self._place is None or _place(self._path) == self._place:
                return self._db
            self._drop()  # the file is gone, or another one took its place
        self._db = _connect(str(self._path))  # a forked child never uses its parent's connection
        self._pid, self._place = os.getpid(), _place(self._path)
        return self._db

    def _drop(self) -> None:
        if self._db is not None and self._pid == os.getpid():
            with contextlib.suppress(sqlite3.Error):
                self._db.close()
        self._db = self._place = None

    def _start_over(self, place: _Place | None, *, writable: bool) -> None:
        """Delete a file that is of no use; where nothing can be written, go on in memory."""
        self._drop()
        if writable:
            try:
                self._remove(place)
                return
            except (StoreError, OSError):
                pass
        self._db, self._pid = self._copy(), os.getpid()

    def _remove(self, place: _Place | None) -> None:
        """Delete the file, unless another process has put a new one where `place` was."""
        with self._store.lock:
            if place is not None and _place(self._path) not in (place, None):
                return
            for suffix in ("", "-wal", "-shm", "-journal"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{self._path}{suffix}")

    def _copy(self) -> sqlite3.Connection:
        """An index in memory: a copy of the file where that is whole and at rest, else an empty one."""
        db = _connect(":memory:")
        before = _at_rest(self._path)
        if before is None:
            return db
        try:
            with contextlib.closing(
                sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
            ) as file:
                file.backup(db)
            if _at_rest(self._path) == before and meta(db, "version") == VERSION:
                return db
        except (sqlite3.Error, ValueError):
            pass
        db.close()
        return _connect(":memory:")

    def _catch_up(self, db: sqlite3.Connection, refs: bool) -> None:
        made = bool(db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()[0])
        if made and self._is_current(db, refs):
            return
        if not made:
            db.execute("PRAGMA cache_size = -65536")
        with _transaction(db, "IMMEDIATE"):
            if not db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()[0]:
                _make(db)
            if meta(db, "version") != VERSION:
                raise Foreign("of another version")
            # the refs may have moved while the transaction was waited for; what is shown is read again inside it
            index_build.show(db, self._source)
            if refs:
                index_build.show_refs(db, self._source)
        if not made and self._place is not None:
            db.execute("PRAGMA cache_size = -8192")
            _share(db)

    def _is_current(self, db: sqlite3.Connection, refs: bool) -> bool:
        rows = db.execute("SELECT key, value FROM meta")
        said = dict(rows.fetchall())
        shown = (said.get("head"), said.get("evidence"))
        if said.get("version") != VERSION or shown != self._source.heads():
            return False
        return not refs or index_build.refs_are_shown(db, self._source)


def _connect(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA synchronous = NORMAL")
        if db.execute("PRAGMA page_count").fetchone()[0]:
            _share(db)
    except sqlite3.Error:
        db.close()
        raise
    return db


def _share(db: sqlite3.Connection) -> None:
    """Let readers go on beside a writer. An index that is being made is written straight into its file instead."""
    try:
        db.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if not any(word in str(error) for word in _BUSY):
            raise


def _make(db: sqlite3.Connection) -> None:
    from rover_store.index.views import statements

    for statement in (*filter(str.strip, TABLES.split(";")), *statements()):
        db.execute(statement)
    index_build.set_meta(db, "version", VERSION)


@contextmanager
def _transaction(db: sqlite3.Connection, kind: str) -> Iterator[None]:
    """All or nothing."""
    db.execute(f"BEGIN {kind}")
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _place(path: Path) -> _Place | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _at_rest(path: Path) -> tuple[int, int, int] | None:
    """What tells one state of an index file from another; None where it is no file or is being written."""
    try:
        found = os.stat(path)
        if path.is_symlink() or not path.is_file():
            return None
        with contextlib.suppress(FileNotFoundError):
            if os.stat(f"{path}-wal").st_size or os.stat(f"{path}-journal").st_size:
                return None
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _where(wanted: Mapping[str, str]) -> tuple[str, list[str]]:
    if not wanted:
        return "", []
    return " WHERE " + " AND ".join(f"{column} = ?" for column in wanted), list(wanted.values())
