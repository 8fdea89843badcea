"""The index in odd places: another store's, another process's, a medium that is read-only, trees that git allows."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from store_samples import add, edit, folder_item, git, new_store

from rover_store.commits import AUTHOR, encode_commit
from rover_store.index import rows as index_rows
from rover_store.index import sql
from rover_store.layout import entry, package_trees
from rover_store.names import package_path
from rover_store.packs import COMMIT
from rover_store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "store")
    add(store, "one", resources={"files/shared": b"1"})
    add(store, "two")
    return store


def _agrees(store: Store) -> None:
    trees = package_trees(store.objects, store.commit().tree)
    assert store.packages() == [entry(store.objects, n, t) for n, t in trees.items()]
    assert [e.id for e in store.log()] == git(store.git, "rev-list", "--topo-order", "HEAD").split()
    assert store.fsck() == []


def _copy_index(source: Store, target: Store) -> None:
    source.index.ask(lambda db: db.execute("SELECT 1").fetchall())
    saved = sqlite3.connect(source.folder / "index.db")
    saved.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    saved.close()
    for file in target.folder.glob("index.db*"):
        file.unlink()
    shutil.copy(source.folder / "index.db", target.folder / "index.db")


def test_of_another_store(store: Store, tmp_path: Path) -> None:
    other = new_store(tmp_path / "other")
    add(other, "else", "Something else.")
    for source, target in ((other, store), (store, other)):
        _copy_index(source, target)
        _agrees(Store.open(target.root))


def test_of_a_clone_that_went_its_own_way(store: Store, tmp_path: Path) -> None:
    shutil.copytree(store.root, tmp_path / "clone")
    clone = Store.open(tmp_path / "clone", clock=store.clock)
    edit(clone, "one", {"task/instruction.md": b"Here."})
    edit(store, "one", {"task/instruction.md": b"There."})
    add(store, "three")
    _copy_index(store, clone)
    again = Store.open(clone.root)
    _agrees(again)
    assert [p.name for p in again.packages()] == ["one", "two"]


def test_one_that_shows_what_is_pruned_away(store: Store) -> None:
    head = store.resolve()
    edit(store, "two", {"task/instruction.md": b"Gone soon."})
    store.index.sync()
    saved = store.folder / "saved.db"
    copy = sqlite3.connect(saved)
    store.index.ask(lambda db: db.backup(copy))
    copy.close()
    shutil.rmtree(store.git / "refs/rover", ignore_errors=True)
    git(store.git, "update-ref", "refs/heads/main", head)
    git(store.git, "reflog", "expire", "--all", "--expire=now")
    git(store.git, "repack", "-adq")
    git(store.git, "prune", "--expire=now")
    for file in store.folder.glob("index.db*"):
        file.unlink()
    saved.rename(store.folder / "index.db")
    other = Store.open(store.root)
    assert [e.id for e in other.log()] == git(store.git, "rev-list", "HEAD").split()
    assert [p.name for p in other.packages()] == ["one", "two"]


def test_deleted_or_replaced_while_it_is_open(store: Store) -> None:
    assert len(store.packages()) == 2
    for file in store.folder.glob("index.db*"):
        file.unlink()
    add(store, "three")
    assert len(store.packages()) == 3
    assert (store.folder / "index.db").exists()  # not written into a file that nobody sees
    Store.open(store.root).reindex()
    add(store, "four")
    assert len(store.packages()) == len(Store.open(store.root).packages()) == 4
    _agrees(store)


def test_a_build_that_was_cut_short(store: Store) -> None:
    head = store.resolve()
    for file in store.folder.glob("index.db*"):
        file.unlink()
    code = f"""
import os
from pathlib import Path
from rover_store.index import build as index_build
from rover_store.store import Store
index_build.show_contents = lambda *_: os._exit(9)
Store.open(Path({str(store.root)!r})).packages()
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    _agrees(Store.open(store.root))
    assert store.resolve() == head


BUILD = """
import sys
from pathlib import Path
from rover_store.store import Store
store = Store.open(Path(sys.argv[1]))
print(len(store.packages()), len(list(store.log())))
"""


@pytest.mark.parametrize("content", [None, b"garbage" * 1000])
def test_many_processes_build_it_at_once(content: bytes | None, store: Store) -> None:
    for file in store.folder.glob("index.db*"):
        file.unlink()
    if content is not None:
        (store.folder / "index.db").write_bytes(content)
    running = [
        subprocess.Popen([sys.executable, "-c", BUILD, str(store.root)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(8)
    ]
    ended = [(p.communicate(timeout=60), p.returncode) for p in running]
    assert ended == [((b"2 2\n", b""), 0)] * 8
    _agrees(Store.open(store.root))


def test_a_copy_is_read_where_nothing_can_be_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a medium that is read-only the file is copied into memory, and only what is new is added."""
    store.index.sync()
    store.index._drop()  # what is closed is at rest
    assert [f.name for f in store.folder.glob("index.db*")] == ["index.db"]
    store_copy = Store.open(store.root)
    edit_elsewhere = Store.open(store.root, clock=store.clock)
    edit_elsewhere.after_write = lambda: None  # type: ignore[method-assign]
    edit(edit_elsewhere, "two", {"task/instruction.md": b"Later."})
    walked: list[int] = []
    real = index_rows.commit_row
    monkeypatch.setattr(index_rows, "commit_row", lambda *a: (walked.append(1), real(*a))[1])
    index = store_copy.index
    index._db, index._pid = index._copy(), os.getpid()
    assert len(list(store_copy.log())) == 3
    assert index.in_memory
    assert len(walked) == 1
    assert len(list(sql.ask(store_copy, "SELECT * FROM commits").rows)) == 3


def test_trees_of_another_program(store: Store) -> None:
    """A package in two places, names that are no text, records that are none: the index goes on, fsck tells."""
    one = store.package("one").tree
    with store.write() as tx:
        bad = b'{"name": "one", "title": "\\ud800", "edges": [1, {"source": 5}]}'
        tree = tx.edit_tree(one, {"package.json": bad})
        deep = tx.edit_tree(one, {"package.json": b"[" * 100_000})
        odd = tx.edit_tree(one, {"package.json": json.dumps({"title": 5, "provenance": 3, "admission": []}).encode()})
        root = tx.edit_tree(
            store.commit().tree,
            {package_path("one"): folder_item(tree), "packages/0/0/0/one": folder_item(deep),
             "packages/0/0/0/caf\udce9": folder_item(odd), "packages/1/file": b"x", "resources/files/loose": b"y",
             "resources/odd/x/y": b"z"},
        )  # fmt: skip
        data = encode_commit(root, [store.resolve()], "Odd\n\nKey: \ud800", AUTHOR, 10)
        commit = tx.add(COMMIT, data.replace(b" 10 +0000", b" %d +0000" % 10**17))
        tx.promote("main", commit, expect=store.resolve())
    for again in (store, Store.open(store.root)):
        again.reindex()
        assert [(p.name, p.tree == tree) for p in again.packages()] == [("one", True), ("two", False)]
        assert next(e.id for e in again.log()) == commit
        assert list(sql.ask(again, "SELECT date FROM commits WHERE commit_id = ?", [commit]).rows) == [("",)]
        changed = sql.ask(again, "SELECT name FROM commit_changes WHERE commit_id = ?", [commit])
        assert list(changed.rows) == [("one",)]
    edit(store, "one", {"package.json": b'{"name": "one", "title": "Whole again"}'})
    assert list(sql.ask(store, "SELECT title FROM packages WHERE name = 'one'").rows) == [("Whole again",)]


def test_a_question_sees_one_state(store: Store) -> None:
    def question(db: sqlite3.Connection) -> list[int]:
        before = db.execute("SELECT count(*) FROM package").fetchone()[0]
        add(Store.open(store.root, clock=store.clock), "three")
        again = store.index.ask(lambda inner: inner.execute("SELECT count(*) FROM package").fetchone()[0])
        return [before, db.execute("SELECT count(*) FROM package").fetchone()[0], again, len(store.packages())]

    # the tables stay as they were; what is asked of HEAD anew is answered from its tree
    assert store.index.ask(question) == [2, 2, 2, 3]
    assert len(store.packages()) == 3
