"""The second database: the same rows as the index, by the same walk; PostgreSQL where it is installed."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_samples import add, edit, new_store

from rover_store.errors import RoverError, StoreError, UsageError
from rover_store.evidence import rollout_id
from rover_store.index import mirror, sql
from rover_store.index.views import VIEWS
from rover_store.records import Budget, RolloutKey, Score, Trajectory, Verdict
from rover_store.store import Store
from rover_store.trees import EMPTY_TREE


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """URL of a database of a private PostgreSQL on a socket in a folder of its own."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    initdb = shutil.which("initdb") or (str(found[0]) if found else None)
    if initdb is None:
        pytest.skip("PostgreSQL is not installed")
    pytest.importorskip("psycopg")
    start: list[str] = []
    home = Path(tempfile.mkdtemp(prefix="rover-pg-", dir="/tmp"))
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        import pwd

        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("root cannot run PostgreSQL, and there is no user postgres")
        os.chown(home, user.pw_uid, user.pw_gid)
        start = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    pg_ctl = str(Path(initdb).with_name("pg_ctl"))
    data = str(home / "data")

    def run(*words: str) -> None:
        subprocess.run([*start, *words], check=True, stdout=subprocess.DEVNULL, cwd=home)

    run(initdb, "-D", data, "-U", "rover", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
    options = f"-k {home} -c listen_addresses='' -c fsync=off"
    run(pg_ctl, "-D", data, "-w", "-l", str(home / "log"), "-o", options, "start")
    try:
        yield f"postgresql+psycopg://rover:secret@/postgres?host={home}"
    finally:
        run(pg_ctl, "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(home)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "store")
    add(store, "one", resources={"files/shared": b"1"})
    add(store, "two")
    edit(store, "one", {"context/files/data.csv": b"2"}, "Edit\n\nWhy: a zero \0 byte\nRover-Seed: 1")
    _rollout(store, 1, "passed")
    return store


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'second.db'}"
        return
    from sqlalchemy import create_engine, text

    place = request.getfixturevalue("cluster")
    engine = create_engine(place)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    yield place


def _rollout(store: Store, seed: int, outcome: str) -> None:
    one = store.package("one").components
    versions = {c: one[c] for c in ("context", "task", "harness")}
    key = RolloutKey(**versions, policy="p", seed=seed, budget=Budget(), runtime="r")
    trajectory = Trajectory(key=key, package="one", start=EMPTY_TREE)
    score = Score(criterion="c", requirement="r", score=0.5, weight=1.0, critical=True, reason="half")
    verdict = Verdict(
        rollout=rollout_id(trajectory), verifier=one["verifier"], outcome=outcome, score=0.5, gate=1, scores=(score,)
    )
    store.evidence.put([(trajectory, {})], [verdict])


def _same(store: Store, url: str) -> None:
    """Every view gives the same rows in both databases."""
    for view in VIEWS:
        here = sql.ask(store, f"SELECT * FROM {view}")
        there = mirror.ask(store, f"SELECT * FROM {view}", url=url)
        assert there.columns == here.columns
        rows = [sorted(map(_plain, found.rows)) for found in (here, there)]
        assert rows[0] == rows[1], view


def _plain(row: tuple[object, ...]) -> tuple[str, ...]:
    values = (int(v) if isinstance(v, bool) else v for v in row)
    return tuple(str(v).replace("\0", "\ufffd") for v in values)


def test_follows_the_store(store: Store, url: str) -> None:
    first = mirror.sync(store, url)
    assert (first.fresh, first.rows["history"], first.rows["package"], first.rows["verdict"]) == (True, 3, 2, 1)
    assert "secret" not in first.database
    _same(store, url)
    again = mirror.sync(store, url)
    assert (again.fresh, again.rows) == (False, first.rows)
    edit(store, "two", {"task/instruction.md": b"Other."})
    store.tag("v1")
    _rollout(store, 2, "failed")
    with store.write("remove") as tx:
        tx.remove_package("one")
        tx.commit("Remove one")
    found = mirror.sync(store, url)
    assert (found.fresh, found.rows["history"], found.rows["package"], found.rows["score"]) == (False, 5, 1, 2)
    _same(store, url)
    store.create_branch("side", "HEAD~3")
    store.switch("side")
    edit(store, "one", {"task/instruction.md": b"Side."})
    _same(store, url)
    store.undo()
    _same(store, url)


def test_what_is_shown_may_be_gone(store: Store, url: str) -> None:
    mirror.sync(store, url)
    from sqlalchemy import create_engine, text

    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE meta SET value = '" + "0" * 40 + "' WHERE key = 'head'"))
    engine.dispose()
    assert mirror.sync(store, url).fresh
    _same(store, url)


WRITES = (
    "DELETE FROM packages", "DROP TABLE meta", "INSERT INTO meta VALUES ('a', 'b')", "UPDATE meta SET value = 'x'",
    "SELECT 1) AS a; DROP TABLE meta; SELECT * FROM (SELECT 1", "SELECT 1; DROP TABLE meta", "COMMIT", "VACUUM",
    "SELECT 1 --\n) AS a; DELETE FROM meta; --", "CREATE TABLE x (a INTEGER)",
)  # fmt: skip


@pytest.mark.parametrize("query", WRITES)
def test_a_question_writes_nothing(query: str, store: Store, url: str) -> None:
    before = mirror.sync(store, url).rows
    with pytest.raises(UsageError) as caught:
        list(mirror.ask(store, query, url=url).rows)
    assert "\n" not in caught.value.message
    assert mirror.sync(store, url).rows == before


def test_values(store: Store, url: str) -> None:
    query = "SELECT name, 'a?b :c' AS x FROM packages WHERE name > ? AND name < ? ORDER BY 1;"
    assert list(mirror.ask(store, query, ["o", "p"], url=url).rows) == [("one", "a?b :c")]
    named = mirror.ask(store, "SELECT name FROM packages WHERE name = :n", {"n": "two"}, url=url)
    assert list(named.rows) == [("two",)]
    with pytest.raises(UsageError, match="has 1 `\\?` and 0 values"):
        mirror.ask(store, "SELECT ?", url=url)
    with pytest.raises(UsageError, match="SQL: "):
        mirror.ask(store, "SELECT * FROM nothing", url=url)


def test_tables_of_something_else_are_left_alone(store: Store, url: str, tmp_path: Path) -> None:
    from sqlalchemy import create_engine, text

    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE package (mine INTEGER)"))
        connection.execute(text("INSERT INTO package VALUES (42)"))
    with pytest.raises(StoreError, match="has a table `package` of something else") as caught:
        mirror.sync(store, url)
    assert "secret" not in str(caught.value)
    with engine.begin() as connection:
        assert connection.execute(text("SELECT mine FROM package")).scalar() == 42
        connection.execute(text("DROP TABLE package"))
    engine.dispose()
    mirror.sync(store, url)
    other = new_store(tmp_path / "other")
    add(other, "else", "Something else.")
    with pytest.raises(StoreError, match="it shows another store"):
        mirror.sync(other, url)
    _same(store, url)


@pytest.mark.parametrize(
    "url",
    ["nonsense", "postgresql+psycopg://me:secret@127.0.0.1:1/x", "nodb://me:secret@host/x", "sqlite:////nowhere/x/y.db",
     "postgresql+nodriver://me:secret@host/x"],
)  # fmt: skip
def test_a_database_that_is_not_there(url: str, store: Store) -> None:
    with pytest.raises(RoverError) as caught:
        mirror.sync(store, url)
    assert "secret" not in f"{caught.value.message} {caught.value.hint}"
    assert "\n" not in caught.value.message


def test_named_in_the_settings_it_follows_every_write(tmp_path: Path) -> None:
    root = tmp_path / "store"
    new_store(root)
    file = root / ".rover/config.toml"
    settings = file.read_text()
    file.write_text(settings + f'database = "sqlite:///{tmp_path / "second.db"}"\n')
    store = Store.open(root, clock=lambda: 1)
    add(store, "one")
    db = sqlite3.connect(tmp_path / "second.db")
    assert db.execute("SELECT name FROM packages").fetchall() == [("one",)]
    db.close()
    file.write_text(settings + 'database = "sqlite:////nowhere/x/second.db"\n')
    store = Store.open(root, clock=lambda: 2)
    add(store, "two")  # the write stands, whatever became of the database
    assert [p.name for p in store.packages()] == ["one", "two"]
    file.write_text(settings + "database = 5\n")
    with pytest.raises(StoreError, match=r"config\.toml: database: must be a URL"):
        Store.open(root)


def test_without_one_the_question_says_so(store: Store) -> None:
    with pytest.raises(UsageError, match="no second database") as caught:
        mirror.ask(store, "SELECT 1")
    assert "config.toml" in caught.value.hint


