"""Questions in SQL to the views of the index: read-only whatever the query says, and bounded in time.

A connection of its own is opened for reading alone, may read the views and nothing else, and is interrupted when
its time is over. Rows come as they are found.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rover_store.errors import StoreError, UsageError
from rover_store.index.views import VIEWS

if TYPE_CHECKING:
    from rover_store.store import Store

Values = Sequence[Any] | Mapping[str, Any]
_READS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE})
_KNOWN = frozenset({*VIEWS, "sqlite_master", "sqlite_schema", "json_each", "json_tree", "pragma_table_info"})
#: functions that reach beyond the query; SQLite's own are harmless but these
_FUNCTIONS = frozenset({"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "sqlite_log"})
#: virtual machine steps between two looks at the clock
_STEPS = 20_000
_LARGEST = 64 << 20
_READ_ONLY = "a question may not change anything or open anything: SELECT alone is answered"


class Rows(NamedTuple):
    """What a query gives: names of its columns, and rows as they are found."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


def ask(store: Store, query: str, values: Values = (), *, timeout: float | None = 60.0) -> Rows:
    """Answer one SELECT about the store. UsageError says what SQL says is wrong, and when the time is over.

    `values` fill `?` in order, or `:name` by name. The timeout counts seconds of answering, None for no end.
    """
    db = _open(store)
    guard = _Guard(timeout)
    try:
        db.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')")  # these are declared at their first use
        db.execute("PRAGMA query_only = ON")
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
        db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        db.set_authorizer(guard)
        db.set_progress_handler(guard.is_late, _STEPS)
        if not query.strip().strip(";"):
            raise UsageError("an empty query", hint="rover sql 'SELECT * FROM packages LIMIT 5'")
        try:
            cursor = db.execute(query, _fitting(values))
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            raise _refusal(error, guard) from None
        if cursor.description is None:
            raise UsageError("not a question: only SELECT gives rows")
    except BaseException:
        db.close()
        raise
    return Rows(tuple(c[0] for c in cursor.description), _rows(db, cursor, guard))


def _rows(db: sqlite3.Connection, cursor: sqlite3.Cursor, guard: _Guard) -> Iterator[tuple[Any, ...]]:
    try:
        while True:
            guard.began = time.monotonic()
            row = next(cursor, None)
            guard.spent += time.monotonic() - guard.began  # a reader may take its time, as a pager does
            if row is None:
                return
            yield row
    except sqlite3.Error as error:
        raise _refusal(error, guard) from None
    finally:
        db.close()


def _open(store: Store) -> sqlite3.Connection:
    """A connection for reading to an index that is up to date."""
    index = store.index

    def copied(db: sqlite3.Connection) -> sqlite3.Connection | None:
        if not index.in_memory:
            return None
        other = sqlite3.connect(":memory:", isolation_level=None)
        db.backup(other)
        return other

    copy = index.ask(copied, refs=True)
    if copy is not None:
        return copy
    try:
        return sqlite3.connect(f"{index.path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=10)
    except sqlite3.Error as error:
        raise StoreError(f"{index.path}: {error}", hint="rover reindex") from None


class _Guard:
    """What SQLite asks before a query may do something; remembers what it refused, and why."""

    def __init__(self, timeout: float | None) -> None:
        self.reason = ""
        self.timeout = timeout
        self.spent = 0.0
        self.began = time.monotonic()

    def is_late(self) -> bool:
        """Whether SQLite has worked for longer than it may."""
        return self.timeout is not None and self.spent + time.monotonic() - self.began > self.timeout

    def __call__(self, action: int, a: str | None, b: str | None, _database: str | None, view: str | None) -> int:
        if action in _READS:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ:
            return self._read(a or "", b or "", view)
        if action == sqlite3.SQLITE_FUNCTION:
            return self._no(f"the function {b} may not be used") if b in _FUNCTIONS else sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA and a in ("table_info", "table_xinfo", "table_list"):
            return sqlite3.SQLITE_OK
        return self._no(_READ_ONLY)

    def _read(self, table: str, column: str, view: str | None) -> int:
        # a view that is merely counted is read as its table, without a column
        if table in _KNOWN or view in VIEWS or table not in _TABLES or not column:
            return sqlite3.SQLITE_OK
        return self._no(f"{table} is no view; `rover sql --tables` lists them")

    def _no(self, reason: str) -> int:
        self.reason = self.reason or reason
        return sqlite3.SQLITE_DENY


def _tables() -> frozenset[str]:
    import re

    from rover_store.index.tables import TABLES

    return frozenset(re.findall(r"CREATE TABLE (\w+)", TABLES))


_TABLES = _tables()


def _refusal(error: Exception, guard: _Guard) -> UsageError:
    text = " ".join(str(error).split())
    if "interrupted" in text:
        hint = "--timeout gives it longer; LIMIT asks for less"
        return UsageError(f"no answer within {guard.timeout:g} s", hint=hint)
    if "because it is a view" in text:
        return UsageError(_READ_ONLY)
    if guard.reason:
        return UsageError(guard.reason)
    if "You can only execute one statement" in text:
        return UsageError("one statement at a time")
    hint = "`rover sql --tables` lists the views" if text.startswith("no such") else ""
    return UsageError(f"SQL: {text}", hint=hint)


def _fitting(values: Values) -> Values:
    if isinstance(values, Mapping):
        return {k: _plain(v) for k, v in values.items()}
    return [_plain(v) for v in values]


def _plain(value: Any) -> Any:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
