"""Transactions: one pack, all or nothing, one writer after the other."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
from store_samples import START, add, edit, git, new_store, package_files, package_tree

from rover_store.errors import LostRace, NotFound, PackageError, StoreError, UsageError
from rover_store.refs import HEADS
from rover_store.store import Store


def _state(store: Store) -> tuple[object, ...]:
    files = sorted(str(p.relative_to(store.git)) for p in store.git.rglob("*") if p.is_file())
    return files, store.refs.all(), store.refs.head()


def test_an_empty_store_works(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    assert store.packages() == []
    assert store.resources() == {}
    assert list(store.log()) == []
    assert store.stale() == []
    assert store.op_log() == []
    assert store.fsck() == []
    assert store.current_branch() == "main"
    with pytest.raises(NotFound, match="package not found: x"):
        store.package("x")
    with pytest.raises(NotFound, match="revision not found: HEAD"):
        store.resolve()


def test_one_pack_a_commit(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one", resources={"files/shared": b"1,2\n"})
    assert len(store.objects.packs) == 1
    edit(store, "one", {"context/files/data.csv": b"new"})
    assert len(store.objects.packs) == 2
    assert store.resources().keys() == {"files/shared"}
    commit = store.commit()
    assert (commit.author, commit.subject) == ("rover <rover@localhost>", "Edit one")
    assert commit.time >= START


def _write_and_fail(store: Store) -> None:
    with store.write() as tx:
        tx.set_package("two", package_tree(tx, "two", package_files("two"), {}))
        tx.commit("Add two")
        raise ZeroDivisionError


def test_an_exception_leaves_no_trace(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    before = _state(store)
    with pytest.raises(ZeroDivisionError):
        _write_and_fail(store)
    assert _state(store) == before
    assert [p.name for p in store.packages()] == ["one"]


def test_packages_that_were_not_committed_are_an_error(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    with pytest.raises(StoreError, match="not committed"), store.write() as tx:
        tx.set_package("two", package_tree(tx, "two", package_files("two"), {}))
    assert store.packages() == []


def test_nothing_changed_makes_no_commit(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    head = add(store, "one")
    with store.write() as tx:
        tx.set_package("one", store.package("one").tree)
        assert tx.commit("Nothing") == head
    assert len(store.op_log()) == 1


def test_the_same_inputs_give_the_same_ids(tmp_path: Path) -> None:
    heads = [add(new_store(tmp_path / name), "one") for name in ("a", "b")]
    assert heads[0] == heads[1]


def test_trailers_author_time_and_parents(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first = add(store, "one")
    with store.write() as tx:
        commit = tx.commit("Merge", parents=[first], trailers={"Rover-Seed": "1"}, author="A B <a@b>", time=5)
    found = store.commit(commit)
    assert (found.trailers, found.author, found.time, found.parents) == (
        {"Rover-Seed": "1"}, "A B <a@b>", 5, (first,),
    )  # fmt: skip
    with pytest.raises(UsageError, match="not of the form"), store.write() as tx:
        tx.commit("x", parents=[first], author="nonsense")


def test_a_nested_write_is_refused_and_put_files_is_not(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    with store.write() as tx:
        with pytest.raises(StoreError, match="already open"), store.write():
            pass
        tree = store.put_files({"a/b": b"1"})
        assert tx.exists(tree)
    assert store.objects.read_tree(store.put_files({"c": b"2"}, base=tree)).keys() == {"a/b", "c"}


def test_a_candidate_moves_no_branch(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    head = add(store, "one")
    with store.write("repair one") as tx:
        tree = tx.edit_tree(store.package("one").tree, {"task/instruction.md": b"Better."})
        candidate = tx.detached_commit("C", base=head, packages={"one": tree}, trailers={"Rover-Mask": "2"})
        case = tx.detached_commit("Case", base=head, files={"case.json": b"{}\n"}, parents=[head, candidate])
        tx.set_ref("refs/rover/cases/c1", case, expect=None)
    assert store.resolve() == head
    assert store.cases() == {"c1": case}
    assert store.package("one", candidate).tree == tree
    assert store.commit(case).parents == (head, candidate)
    with store.write("promote") as tx:
        tx.promote("main", candidate, expect=head)
    assert store.resolve() == candidate
    with pytest.raises(LostRace, match="main moved meanwhile"), store.write("promote") as tx:
        tx.promote("main", candidate, expect=head)


def _write_beside_git(store: Store, target: str) -> None:
    with store.write() as tx:
        tx.set_package("one", tx.edit_tree(store.package("one").tree, {"context/files/data.csv": b"3"}))
        tx.commit("Third")
        git(store.git, "update-ref", "refs/heads/main", target)


def test_a_ref_that_another_git_moves_is_not_overwritten(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first = add(store, "one")
    second = edit(store, "one", {"context/files/data.csv": b"2"})
    before = store.op_log()
    with pytest.raises(LostRace, match="refs/heads/main"):
        _write_beside_git(store, first)
    assert store.resolve() == first
    assert store.op_log() == before
    edit(store, "one", {"context/files/data.csv": b"4"})
    assert [op.command for op in store.op_log(2)] == ["edit one", "(another git)"]
    assert store.op_log(2)[1].moves == (("refs/heads/main", second, first),)


def test_names_that_cannot_be_packages(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    tree = store.put_files({"a": b"1"})
    with store.write() as tx:
        for name in ("../../x", "", "A", "a/b", "a\nb", "ü", "x" * 101, "a..b"):
            with pytest.raises(PackageError, match="not a package name") as caught:
                tx.set_package(name, tree)
            assert caught.value.exit_code == 2
        with pytest.raises(UsageError, match="not a resource"):
            tx.set_resource("nonsense/x", tree)
        with pytest.raises(NotFound, match="tree not found"):
            tx.set_package("x", "1" * 40)


def test_removing(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one", resources={"files/shared": b"1"})
    add(store, "two")
    with store.write() as tx:
        tx.remove_package("one")
        tx.set_resource("files/shared", None)
        tx.commit("Remove")
    assert [p.name for p in store.packages()] == ["two"]
    assert store.resources() == {}
    assert "resources" not in store.objects.list_tree(store.commit().tree)


def test_branches(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first = add(store, "one")
    store.create_branch("side/a")
    store.switch("side/a")
    second = edit(store, "one", {"context/files/data.csv": b"2"})
    assert store.branches() == {"main": first, "side/a": second}
    assert store.current_branch() == "side/a"
    assert [p.tree for p in store.packages()] == [store.package("one", second).tree]
    store.switch("main")
    assert [p.tree for p in store.packages()] == [store.package("one", first).tree]
    assert len(list(store.log())) == 1
    with pytest.raises(UsageError, match="exists already"):
        store.create_branch("side/a")
    with pytest.raises(UsageError, match="current branch"):
        store.delete_branch("main")
    with pytest.raises(NotFound, match="branch not found: nope"):
        store.switch("nope")
    with store.write() as tx:
        tx.commit("On a new branch", branch="fresh")
    assert store.commit("fresh").parents == ()
    assert store.delete_branch("side/a") == second
    assert HEADS + "side/a" not in store.refs.all()


def _commit_many(folder: Path, name: str, count: int) -> None:
    store = Store.open(folder)
    for i in range(count):
        add(store, f"{name}-{i}")


def test_writers_at_once_all_succeed(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    fork = multiprocessing.get_context("spawn")
    workers = [fork.Process(target=_commit_many, args=(tmp_path, name, 8)) for name in ("a", "b", "c")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert len(store.packages()) == 24
    assert len(list(store.log())) == 24
    assert len(store.op_log()) == 24
    assert store.fsck() == []
