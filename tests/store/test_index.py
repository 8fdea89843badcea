"""The index follows git, whatever happened to it or to git in between."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from pathlib import Path

import pytest
from store_samples import add, edit, git, new_store

from rover_store.index.tables import TABLES
from rover_store.layout import entry, package_trees
from rover_store.records import Budget, RolloutKey, Trajectory
from rover_store.store import Store
from rover_store.trees import EMPTY_TREE


def _agrees(store: Store) -> None:
    root = store.commit().tree
    trees = package_trees(store.objects, root)
    assert store.packages() == [entry(store.objects, n, t) for n, t in trees.items()]
    assert [e.id for e in store.log()] == git(store.git, "rev-list", "--topo-order", "HEAD").split()
    assert store.fsck() == []


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path)
    add(store, "one", resources={"files/shared": b"1"})
    add(store, "two")
    edit(store, "one", {"context/files/data.csv": b"2"})
    return store


@pytest.mark.parametrize("content", [None, b"", b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_deleted_or_garbage(store: Store, content: bytes | None) -> None:
    path = store.folder / "index.db"
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    _agrees(Store.open(store.root))
    assert path.stat().st_size > 1000


def test_torn_pages(store: Store) -> None:
    path = store.folder / "index.db"
    store.index.ask(lambda db: db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())
    data = bytearray(path.read_bytes())
    for start in range(4096, len(data), 8192):
        data[start : start + 512] = b"\xa5" * 512
    path.write_bytes(data)
    other = Store.open(store.root)
    other.reindex()
    _agrees(other)


def test_an_index_of_another_version_or_program(store: Store) -> None:
    store.index.ask(lambda db: db.execute("UPDATE meta SET value = '999' WHERE key = 'version'"))
    _agrees(Store.open(store.root))
    path = store.folder / "index.db"
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE meta (something TEXT)")
    db.close()
    _agrees(Store.open(store.root))


def test_commits_that_came_without_it_are_caught_up(store: Store) -> None:
    """Three writers die before their index step; the fourth must not leave a hole."""
    saved = (store.folder / "index.db").read_bytes()
    store.index.ask(lambda db: db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())
    saved = (store.folder / "index.db").read_bytes()
    for i in range(3):
        edit(store, "two", {"context/files/data.csv": b"%d" % i})
    for suffix in ("-wal", "-shm"):
        Path(f"{store.folder / 'index.db'}{suffix}").unlink(missing_ok=True)
    (store.folder / "index.db").write_bytes(saved)
    other = Store.open(store.root)
    assert len(list(other.log(package="two"))) == 4
    _agrees(other)


def test_heads_that_jump(store: Store) -> None:
    first = store.resolve("HEAD~2")
    store.create_branch("side", "HEAD~1")
    store.switch("side")
    edit(store, "two", {"task/instruction.md": b"Side."})
    _agrees(store)
    store.switch("main")
    _agrees(store)
    git(store.git, "update-ref", "refs/heads/main", first)
    _agrees(store)
    assert [p.name for p in store.packages()] == ["one"]
    store.undo()
    _agrees(store)


def test_histories_that_are_unrelated(store: Store) -> None:
    head = store.resolve()
    with store.write() as tx:
        other = tx.commit("Another root", parents=[], branch="orphan")
    store.switch("orphan")
    assert [e.id for e in store.log()] == [other]
    assert [e.id for e in store.log("main", limit=1)] == [head]
    with store.write() as tx:
        tx.commit("Both", parents=[other, head])
    assert len(list(store.log())) == 5
    assert store.fsck() == []


def test_where_nothing_can_be_written_it_lives_in_memory(store: Store) -> None:
    path = store.folder / "index.db"
    for file in store.folder.glob("index.db*"):
        file.unlink()
    path.mkdir()  # stands for a medium that cannot be written: root ignores permissions
    other = Store.open(store.root)
    assert [p.name for p in other.packages()] == ["one", "two"]
    assert len(list(other.log())) == 3
    assert edit(other, "two", {"context/files/data.csv": b"9"}) == other.resolve()
    assert len(list(other.log())) == 4
    path.rmdir()


def test_threads_share_it(store: Store) -> None:
    counts: list[int] = []
    workers = [threading.Thread(target=lambda: counts.append(len(list(store.log())))) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert counts == [3] * 8


def test_a_forked_child_opens_its_own(store: Store) -> None:
    assert len(store.packages()) == 2
    child = os.fork()
    if child == 0:
        os._exit(0 if len(store.packages()) == 2 and len(list(store.log())) == 3 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(store.packages()) == 2


def test_evidence_is_found_again_after_reindex(store: Store) -> None:
    key = RolloutKey(
        context="a" * 40, task="b" * 40, harness="c" * 40, policy="p", seed=2**60 - 1, budget=Budget(), runtime="r"
    )
    store.evidence.put([(Trajectory(key=key, package="one", start=EMPTY_TREE), {})])
    found = store.index.rollouts({"package": "one"})
    assert len(found) == 1
    store.reindex()
    assert store.index.rollouts({"package": "one", "policy": "p"}) == found
    assert store.evidence.matching(found[0][:8]) == found
    assert store.evidence.matching("0000000000") == []
    git(store.folder / "evidence.git", "update-ref", "-d", "refs/rover/evidence")
    assert store.index.rollouts({}) == []


def test_globs(store: Store) -> None:
    assert [p.name for p in store.packages(pattern="t*")] == ["two"]
    assert [p.name for p in store.packages(pattern="[!t]*")] == ["one"]
    assert [p.name for p in store.packages("HEAD~1", pattern="[!t]*")] == ["one"]
    assert store.packages(pattern="nothing*") == []


def test_the_tables_are_those_of_the_schema() -> None:
    from sqlalchemy.dialects import sqlite
    from sqlalchemy.schema import CreateIndex, CreateTable

    from rover_store.index.schema import TABLES as MODELS

    wanted = []
    for model in MODELS:
        table = model.metadata.tables[str(model.__tablename__)]
        wanted.append(str(CreateTable(table).compile(dialect=sqlite.dialect())))
        wanted += [str(CreateIndex(i).compile(dialect=sqlite.dialect())) for i in table.indexes]

    def plain(statement: str) -> str:
        return re.sub(r"\s*([(),])\s*", r"\1", " ".join(statement.split()))

    assert sorted(map(plain, wanted)) == sorted(plain(s) for s in TABLES.split(";") if s.strip())


def test_the_index_does_not_answer_for_another_head(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    first, before = store.resolve(), (store.packages(), store.graph())
    edit(store, "one", {"task/instruction.md": b"Again.\n"})
    assert store.index.packages(first, "*") is None
    assert store.index.graph(first) is None
    assert (store.packages(first), store.graph(first)) == before
    assert store.index.packages(store.resolve(), "none*") == store.packages(pattern="none*") == []
