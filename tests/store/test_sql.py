"""Questions in SQL: what they may read, that they change nothing, and that they end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from store_samples import add, edit, new_store

from rover_store.errors import UsageError
from rover_store.evidence import rollout_id
from rover_store.index import sql
from rover_store.index.views import VIEWS
from rover_store.records import Budget, RolloutKey, Score, SealedAudit, Trajectory, Verdict
from rover_store.store import Store
from rover_store.trees import EMPTY_TREE

EVERYTHING = "SELECT * FROM commits", "SELECT * FROM packages", "SELECT * FROM dependencies", "SELECT * FROM operations"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "store")
    add(store, "one", resources={"files/shared": b"1"})
    add(store, "two")
    edit(store, "one", {"context/files/data.csv": b"2"})
    return store


def _rows(store: Store, query: str, values: sql.Values = ()) -> list[tuple[object, ...]]:
    return list(sql.ask(store, query, values).rows)


def _refused(store: Store, query: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        _rows(store, query)
    assert "\n" not in caught.value.message
    return caught.value


WRITES = (
    "DELETE FROM package", "UPDATE package SET title = 'x'", "INSERT INTO meta VALUES ('a', 'b')", "DROP TABLE package",
    "DROP VIEW packages", "DELETE FROM packages", "REPLACE INTO meta VALUES ('head', 'x')", "ALTER TABLE package ADD x",
    "CREATE TABLE x (a)", "CREATE TEMP TABLE x (a)", "CREATE VIEW x AS SELECT 1",
    "CREATE TRIGGER t DELETE ON meta BEGIN SELECT 1; END", "ATTACH DATABASE 'other.db' AS other",
    "DETACH DATABASE main", "VACUUM", "VACUUM INTO 'copy.db'", "REINDEX", "ANALYZE",
    "BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT s", "COMMIT", "PRAGMA query_only = OFF", "PRAGMA journal_mode = DELETE",
    "PRAGMA writable_schema = 1", "PRAGMA user_version = 7", "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA database_list",
    "SELECT load_extension('x')", "SELECT writefile('x', 'y')", "SELECT readfile('/etc/passwd')",
    "WITH x AS (SELECT 1) DELETE FROM meta", "WITH x AS (SELECT 1) INSERT INTO meta SELECT 'a', 'b'",
    "CREATE VIRTUAL TABLE t USING fts5(a)", "SELECT 1; DELETE FROM meta", "EXPLAIN DELETE FROM meta",
)  # fmt: skip


def test_nothing_can_be_written(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = [_rows(store, query) for query in EVERYTHING]
    for query in WRITES:
        _refused(store, query)
    assert [_rows(store, query) for query in EVERYTHING] == before
    assert [p.name for p in tmp_path.iterdir()] == ["store"]
    assert store.fsck() == []


@pytest.mark.parametrize(
    "query",
    ["SELECT * FROM history", "SELECT key FROM meta", "WITH h AS (SELECT seq FROM history) SELECT * FROM h",
     "SELECT (SELECT max(seq) FROM history)", "SELECT p.name FROM packages p JOIN package q ON q.name = p.name",
     "SELECT 1 WHERE EXISTS (SELECT node FROM change)", "SELECT name FROM packages UNION SELECT name FROM package"],
)  # fmt: skip
def test_the_tables_behind_the_views_are_not_read(query: str, store: Store) -> None:
    assert "is no view" in _refused(store, query).message


def test_what_may_be_asked(store: Store) -> None:
    assert _rows(store, "SELECT count(*) FROM packages") == [(2,)]
    assert _rows(store, "VALUES (1, 'a')") == [(1, "a")]
    assert _rows(store, "WITH history AS (SELECT name FROM packages) SELECT * FROM history") == [("one",), ("two",)]
    assert _rows(store, "SELECT p.name FROM packages p JOIN stale s ON s.package = p.name GROUP BY 1") == [("one",)]
    assert _rows(store, "SELECT value FROM json_each('[1, 2]')") == [(1,), (2,)]
    assert _rows(store, "SELECT name FROM packages WHERE name = ?", ["two"]) == [("two",)]
    assert _rows(store, "SELECT name FROM packages WHERE name = :n;", {"n": "two"}) == [("two",)]
    assert [row[1] for row in _rows(store, "PRAGMA table_info(tags)")] == ["name", "commit_id"]
    assert len(_rows(store, "EXPLAIN QUERY PLAN SELECT * FROM versions")) > 1


@pytest.mark.parametrize(
    ("query", "message"),
    [("", "empty query"), (" ; ", "empty query"), ("-- nothing", "not a question"), ("SELEC 1", "SQL: near"),
     ("SELECT * FROM missing", "SQL: no such table: missing"), ("SELECT missing FROM packages", "SQL: no such column"),
     ("SELECT ?", "SQL: Incorrect number of bindings"), ("SELECT 1; SELECT 2", "one statement"),
     ("SELECT zeroblob(1000000000)", "SQL: string or blob too big"), ("SELECT 1\0", "SQL: "),
     ("SELECT abs(-9223372036854775808)", "SQL: integer overflow")],
)  # fmt: skip
def test_what_is_wrong_is_said_in_a_line(query: str, message: str, store: Store) -> None:
    assert message in _refused(store, query).message


def test_it_ends(store: Store) -> None:
    endless = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT {} FROM r"
    for query in (endless.format("count(*)"), endless.format("x") + " WHERE x < 0"):
        with pytest.raises(UsageError, match=r"no answer within 0\.2 s"):
            list(sql.ask(store, query, timeout=0.2).rows)
    found = sql.ask(store, endless.format("x"), timeout=0.2)
    assert next(found.rows) == (1,)
    time.sleep(0.3)  # a reader may take its time
    assert [next(found.rows)[0] for _ in range(20_000)][-1] == 20_001
    found.rows.close()  # type: ignore[attr-defined]


def test_rows_come_as_they_are_found(store: Store) -> None:
    query = f"SELECT a.name FROM commit_changes a, {', '.join(f'commit_changes {x}' for x in 'bcde')}"
    found = sql.ask(store, query)
    assert next(found.rows)
    edit(store, "two", {"task/instruction.md": b"Other."})  # a reader that stands still blocks no writer
    assert len(_rows(store, "SELECT * FROM commits")) == 4
    found.rows.close()  # type: ignore[attr-defined]


def test_where_the_index_cannot_be_written(store: Store) -> None:
    for file in store.folder.glob("index.db*"):
        file.unlink()
    (store.folder / "index.db").mkdir()  # stands for a medium that cannot be written: root ignores permissions
    other = Store.open(store.root)
    assert _rows(other, "SELECT name FROM packages ORDER BY 1") == [("one",), ("two",)]
    assert _refused(other, "DELETE FROM package")


def test_sealed_audits_are_not_in_it(store: Store) -> None:
    store.sealed.append("one", SealedAudit(package="one", answers={"r": "a secret answer"}))
    for view in VIEWS:
        assert "secret" not in str(_rows(store, f"SELECT * FROM {view}"))
        assert "sealed" not in str(_rows(store, f"SELECT * FROM {view}"))
    store.index.ask(lambda db: db.execute("SELECT 1").fetchall())
    assert all(b"secret answer" not in file.read_bytes() for file in store.folder.glob("index.db*"))


def test_rollouts_verdicts_and_scores(store: Store) -> None:
    now = store.package("one").components
    versions = {c: now[c] for c in ("context", "task", "harness")}
    kept, thin = (
        Trajectory(
            key=RolloutKey(**versions, policy=policy, seed=2**70, budget=Budget(), runtime="r"), package="one",
            start=EMPTY_TREE, pruned=EMPTY_TREE if policy == "thin" else None,
        )
        for policy in ("kept", "thin")
    )  # fmt: skip
    score = Score(criterion="c", requirement="r", score=0.25, weight=2, critical=True, reason="a quarter")
    verdict = Verdict(rollout=rollout_id(kept), verifier=now["verifier"], outcome="failed", score=0.25, scores=(score,))
    store.evidence.put([(kept, {}), (thin, {})], [verdict])
    rollouts = "SELECT policy, seed, pruned, present FROM rollouts ORDER BY 1"
    assert _rows(store, rollouts) == [("kept", None, 0, 1), ("thin", None, 1, 1)]  # no database holds such a seed
    assert _rows(store, "SELECT package, policy, outcome, score, present FROM verdicts") == [
        ("one", "kept", "failed", 0.25, 1)
    ]
    assert _rows(store, "SELECT criterion, score, weight, critical, reason FROM scores") == [
        ("c", 0.25, 2.0, 1, "a quarter")
    ]
    edit(store, "one", {"verifier/checks/main.py": b"def ok(ev):\n    return 0.0\n"})
    assert _rows(store, "SELECT present FROM verdicts") == [(0,)]
    assert _rows(store, rollouts)[0] == ("kept", None, 0, 1)


def test_branches_tags_and_operations_follow(store: Store) -> None:
    assert _rows(store, "SELECT name, current FROM branches") == [("main", 1)]
    head = store.resolve()
    store.create_branch("side", "HEAD~1")
    store.tag("v1")
    assert _rows(store, "SELECT name, commit_id = ?, current FROM branches", [head]) == [("main", 1, 1), ("side", 0, 0)]
    assert _rows(store, "SELECT * FROM tags") == [("v1", head)]
    store.undo()
    assert _rows(store, "SELECT * FROM tags") == []
    commands = [command for (command,) in _rows(store, "SELECT command FROM operations ORDER BY number")]
    assert commands == [o.command for o in reversed(store.op_log())]
    moved = "SELECT m.ref FROM moves m JOIN operations o ON o.number = m.number WHERE o.command = 'tag v1'"
    assert _rows(store, moved) == [("refs/tags/v1",)]
