"""Statuses of trees on disk, so that a run that goes on asks no check twice.

A cache and nothing more: keyed by runtime (other libraries may judge otherwise), verifier, start tree and tree, it may
be deleted at any time, and a file that cannot be read is begun anew.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path

#: verifier, start tree, tree
Key = tuple[str, str, str]
Row = tuple[float | None, ...]

_COLUMNS = "runtime TEXT, verifier TEXT, start TEXT, tree TEXT, row TEXT, UNIQUE (runtime, verifier, start, tree)"


class StatusFile:
    """Rows of statuses in one file. One process at a time writes it."""

    def __init__(self, path: Path, runtime: str) -> None:
        self._runtime = runtime
        try:
            self._db, self.rows = self._opened(path)
        except (sqlite3.DatabaseError, ValueError, TypeError):
            path.unlink()
            self._db, self.rows = self._opened(path)

    def add(self, rows: Mapping[Key, Row]) -> None:
        """Keep rows; those that are there stay. What a full disk does not take is graded again some day."""
        values = [(self._runtime, *key, json.dumps(row)) for key, row in rows.items()]
        with contextlib.suppress(sqlite3.OperationalError), self._db:
            self._db.executemany("INSERT OR IGNORE INTO statuses VALUES (?, ?, ?, ?, ?)", values)

    def close(self) -> None:
        self._db.close()

    def _opened(self, path: Path) -> tuple[sqlite3.Connection, dict[Key, Row]]:
        """The file, and all rows of this runtime that it holds."""
        db = sqlite3.connect(path)
        try:
            db.execute(f"CREATE TABLE IF NOT EXISTS statuses ({_COLUMNS})")
            asked = "SELECT verifier, start, tree, row FROM statuses WHERE runtime = ?"
            found = db.execute(asked, (self._runtime,))
            return db, {(verifier, start, tree): tuple(json.loads(row)) for verifier, start, tree, row in found}
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                db.close()
            raise
