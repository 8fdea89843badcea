"""Statuses of trees on disk, so that a run that goes on asks no check twice.

A cache and nothing more: keyed by verifier, start tree and tree, it may be deleted at any time, and a file that cannot
be read is begun anew.
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

_COLUMNS = "verifier TEXT, start TEXT, tree TEXT, row TEXT, UNIQUE (verifier, start, tree)"


class StatusFile:
    """Rows of statuses in one file. One process at a time writes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._db = self._opened()
        except sqlite3.DatabaseError:
            path.unlink()
            self._db = self._opened()

    def read(self) -> dict[Key, Row]:
        """All rows."""
        found = self._db.execute("SELECT verifier, start, tree, row FROM statuses")
        return {(verifier, start, tree): tuple(json.loads(row)) for verifier, start, tree, row in found}

    def add(self, rows: Mapping[Key, Row]) -> None:
        """Keep rows; those that are there stay."""
        with self._db:
            values = [(*key, json.dumps(row)) for key, row in rows.items()]
            self._db.executemany("INSERT OR IGNORE INTO statuses VALUES (?, ?, ?, ?)", values)

    def close(self) -> None:
        self._db.close()

    def _opened(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path)
        try:
            db.execute(f"CREATE TABLE IF NOT EXISTS statuses ({_COLUMNS})")
            db.execute("SELECT count(*) FROM statuses WHERE row IS NULL").fetchone()
        except sqlite3.DatabaseError:
            with contextlib.suppress(sqlite3.Error):
                db.close()
            raise
        return db
