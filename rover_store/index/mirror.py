"""A second database that follows the index: PostgreSQL, or whatever SQLAlchemy reaches by a URL.

It has the tables and the documented views of the index, and is brought up to date by the same walk: from the head
that it shows to where the refs are. Nothing but these tables is ever touched: a database that has one of the names
for something else, or the history of another store, is refused. A password in a URL is never shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, Engine, create_engine, event, func, inspect, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import SQLModel

from rover_store.errors import StoreError, UsageError
from rover_store.index import build as index_build
from rover_store.index.build import Foreign
from rover_store.index.schema import TABLES
from rover_store.index.tables import VERSION
from rover_store.index.views import VIEWS, statements

if TYPE_CHECKING:
    from rover_store.index.sql import Rows, Values
    from rover_store.store import Store

_TABLES = [model.metadata.tables[str(model.__tablename__)] for model in TABLES]
#: the row whose lock makes one sync wait for another
_LOCK = "version"
_BATCH = 1000
_OWN = "give each store a database, or a schema, of its own"
HINT = 'name one in .rover/config.toml: database = "postgresql+psycopg://user@host/name"'


class Synced(NamedTuple):
    """What a sync did. `rows`: by table, where they were counted; `fresh` where all was built anew."""

    database: str
    rows: dict[str, int]
    fresh: bool


def sync(store: Store, url: str, *, count_rows: bool = True) -> Synced:
    """Bring a second database to where the store is now. StoreError names the database, never its password."""
    rows: dict[str, int] = {}
    with _connected(url) as (engine, shown):
        try:
            with engine.begin() as connection:
                fresh = _prepare(connection, store, shown)
            try:
                with engine.begin() as connection:
                    _show(connection, store)
            except Foreign:
                fresh = True
                with engine.begin() as connection:
                    _clear(connection)
                    _show(connection, store)
            if count_rows:
                with engine.connect() as connection:
                    counts = [connection.execute(select(func.count()).select_from(t)).scalar() for t in _TABLES]
                rows = {t.name: int(n or 0) for t, n in zip(_TABLES, counts, strict=True)}
        except SQLAlchemyError as error:
            raise _failure(shown, error) from None
        finally:
            engine.dispose()
    return Synced(shown, rows, fresh)


def ask(store: Store, query: str, values: Values = (), *, timeout: float | None = 60.0, url: str = "") -> Rows:
    """Bring the second database up to date and ask it one SELECT, in a transaction that cannot write."""
    from rover_store.index.sql import Rows as Answer

    place = url or store.config.database
    if not place:
        raise UsageError("the store has no second database", hint=HINT)
    sync(store, place, count_rows=False)
    with _connected(place) as (engine, shown):
        connection = engine.connect()
        try:
            _read_only(connection, engine.dialect.name, timeout)
            # within a query of its own a second statement has no place; the value makes drivers refuse one too
            wrapped = f"SELECT * FROM (\n{query.strip().rstrip(';')}\n) AS answer WHERE :rover_one = 1"
            bound = _bound(wrapped, values)
            found = connection.execution_options(stream_results=True).execute(*bound)
        except SQLAlchemyError as error:
            connection.close()
            raise UsageError(f"SQL: {_words(error)}", hint="the views are those of `rover sql --tables`") from None
        except BaseException:
            connection.close()
            raise
    return Answer(tuple(found.keys()), _rows(engine, connection, found, shown))


def _rows(engine: Engine, connection: Connection, found: Any, shown: str) -> Iterator[tuple[Any, ...]]:
    try:
        for row in found:
            yield tuple(row)
    except SQLAlchemyError as error:
        raise UsageError(f"SQL: {_words(error)}") from None
    finally:
        connection.close()
        engine.dispose()


def _bound(query: str, values: Values) -> tuple[Any, dict[str, Any]]:
    """A statement with its values; neither `?` nor `:` within quotes stands for one."""
    places = count()

    def bind(found: re.Match[str]) -> str:
        return f":rover_{next(places)}" if found[0] == "?" else found[0].replace(":", "\\:")

    named = text(re.sub(r"'(?:[^']|'')*'|\"[^\"]*\"|\?", bind, query))
    wanted = next(places)
    if isinstance(values, Mapping):
        return named, {**values, "rover_one": 1}
    if wanted != len(values):
        raise UsageError(f"the query has {wanted} `?` and {len(values)} values were given")
    return named, {**{f"rover_{i}": v for i, v in enumerate(values)}, "rover_one": 1}


def _read_only(connection: Connection, dialect: str, timeout: float | None) -> None:
    if dialect == "sqlite":
        connection.execute(text("PRAGMA query_only = ON"))
        return
    connection.execute(text("SET TRANSACTION READ ONLY"))
    if dialect == "postgresql" and timeout:
        connection.execute(text(f"SET LOCAL statement_timeout = {int(timeout * 1000)}"))


# --- one sync --------------------------------------------------------------------------------------------
def _prepare(connection: Connection, store: Store, shown: str) -> bool:
    """Make the tables where there are none. True if so, or if they were of another version."""
    found = inspect(connection)
    there = set(found.get_table_names()) | set(found.get_view_names())
    ours = {t.name for t in _TABLES} | set(VIEWS)
    if "meta" in there and {c["name"] for c in found.get_columns("meta")} == {"key", "value"}:
        version = index_build.meta(Remote(connection), "version")
        if version == VERSION and ours <= there:
            _same_store(connection, store, shown)
            return False
        if version is None:
            raise StoreError(f"{shown}: it has a table `meta` of something else", hint=_OWN)
        for view in set(VIEWS) & there:
            connection.execute(text(f"DROP VIEW {view}"))
        SQLModel.metadata.drop_all(connection, _TABLES)
    elif taken := sorted(ours & there):
        message = f"{shown}: it has a table `{taken[0]}` of something else"
        raise StoreError(message, hint=_OWN)
    SQLModel.metadata.create_all(connection, _TABLES)
    for statement in statements():
        connection.execute(text(statement))
    index_build.set_meta(Remote(connection), "version", VERSION)
    return True


def _same_store(connection: Connection, store: Store, shown: str) -> None:
    """StoreError where the database shows a history that shares no commit with this store."""
    db = Remote(connection)
    root = db.execute("SELECT id FROM history ORDER BY seq LIMIT 1").fetchone()
    if root is not None and not store.objects.exists(root[0]):
        raise StoreError(f"{shown}: it shows another store", hint=_OWN)


def _show(connection: Connection, store: Store) -> None:
    db = Remote(connection)
    db.execute("UPDATE meta SET value = value WHERE key = ?", (_LOCK,))  # one sync after the other
    source = store.index.source
    index_build.show(db, source)
    index_build.show_refs(db, source)


def _clear(connection: Connection) -> None:
    for table in _TABLES:
        connection.execute(text(f"DELETE FROM {table.name}"))
    index_build.set_meta(Remote(connection), "version", VERSION)


class Remote:
    """A connection that takes the SQL of `build`: `?` for values, rows as plain tuples."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Any:
        return self._connection.execute(text(_named(sql)), _row(values))

    def executemany(self, sql: str, rows: Any, /) -> Any:
        named = text(_named(sql))
        held = [_row(row) for row in rows]
        for at in range(0, len(held), _BATCH):
            self._connection.execute(named, held[at : at + _BATCH])


def _named(sql: str) -> str:
    parts = sql.split("?")
    return parts[0] + "".join(f":p{i}{part}" for i, part in enumerate(parts[1:]))


def _row(values: Sequence[Any]) -> dict[str, Any]:
    """PostgreSQL holds no zero byte in text."""
    return {f"p{i}": v.replace("\0", "\ufffd") if isinstance(v, str) else v for i, v in enumerate(values)}


# --- connections -----------------------------------------------------------------------------------------
@contextmanager
def _connected(url: str) -> Iterator[tuple[Engine, str]]:
    shown = hidden(url)
    try:
        engine = create_engine(url)
    except (SQLAlchemyError, ImportError) as error:
        what = " ".join(str(error).split()).replace(url, shown)
        hint = "pip install 'workrover[postgres]'" if isinstance(error, ImportError) else HINT
        raise UsageError(f"{shown}: {what[:200]}", hint=hint) from None
    if engine.dialect.name == "sqlite":
        _whole_transactions(engine)
    try:
        yield engine, shown
    except BaseException:
        engine.dispose()
        raise


def _whole_transactions(engine: Engine) -> None:
    """Python's sqlite3 begins a transaction late; for a sync it has to begin before the first look."""
    def connect(db: Any, _record: Any) -> None:
        db.isolation_level = None

    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    event.listen(engine, "connect", connect)
    event.listen(engine, "begin", begin)


def hidden(url: str) -> str:
    """A URL without its password, or what stands before `@` where it is none."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except SQLAlchemyError:
        return re.sub(r"//.*@", "//***@", url)


def _failure(shown: str, error: SQLAlchemyError) -> StoreError:
    return StoreError(f"{shown}: {_words(error)}", hint="rover reindex --to URL tries again")


def _words(error: SQLAlchemyError) -> str:
    """The first line of what the driver said: it holds neither the values nor the URL."""
    said = str(getattr(error, "orig", None) or error).strip()
    return " ".join(said.splitlines()[:1])[:300]
