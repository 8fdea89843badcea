"""The operation log and undo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from store_samples import START, add, edit, git, new_store

from rover_store.commits import AUTHOR, encode_commit
from rover_store.errors import Ambiguous, UsageError
from rover_store.oplog import restore
from rover_store.packs import COMMIT
from rover_store.ref_moves import move


def test_every_move_is_recorded(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first = add(store, "one")
    store.create_branch("side")
    store.switch("side")
    tag = store.tag("v1", message="x")
    log = store.op_log()
    assert [op.command for op in log] == ["tag v1", "switch side", "branch side", "add one"]
    assert log[0].moves == (("refs/tags/v1", None, tag),)
    assert log[1].moves == (("HEAD", "refs/heads/main", "refs/heads/side"),)
    assert log[3].moves == (("refs/heads/main", None, first),)
    assert len(store.op_log(2)) == 2


def test_undo_and_undo_of_undo(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first = add(store, "one")
    second = edit(store, "one", {"context/files/data.csv": b"2"})
    assert store.undo().command == "edit one"
    assert store.resolve() == first
    assert store.packages()[0].tree == store.package("one", first).tree
    assert [e.id for e in store.log()] == [first]
    undone = store.undo()
    assert (undone.command, undone.details["undone"]) == ("undo", "edit one")
    assert store.resolve() == second
    assert [e.id for e in store.log()] == [second, first]


def test_undo_of_the_first_commit_empties_the_store(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first = add(store, "one")
    store.undo()
    assert store.packages() == []
    assert store.branches() == {}
    assert store.fsck() == []
    store.undo()
    assert store.resolve() == first


def test_undo_of_switch_tag_and_branch(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    store.create_branch("side")
    store.undo()
    assert list(store.branches()) == ["main"]
    store.undo()
    store.switch("side")
    store.undo()
    assert store.current_branch() == "main"
    store.tag("v1")
    store.undo()
    assert store.tags() == {}
    store.undo()
    assert list(store.tags()) == ["v1"]


def test_an_older_operation_can_be_named(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    store.tag("v1")
    tagged = store.op_log(1)[0]
    edit(store, "one", {"context/files/data.csv": b"2"})
    assert store.undo(tagged.id[:12]).command == "tag v1"
    assert store.tags() == {}
    with pytest.raises(UsageError, match="has moved since"):
        store.undo(store.op_log()[-1].id)
    with pytest.raises(UsageError, match="no operation nonsense"):
        store.undo("nonsense")


def test_nothing_to_undo(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    with pytest.raises(UsageError, match="nothing to undo"):
        store.undo()


def test_old_heads_stay_alive(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    second = edit(store, "one", {"context/files/data.csv": b"2"})
    store.undo()
    git(store.git, "gc", "--prune=now", "-q")
    assert store.undo().command == "undo"
    assert store.resolve() == second
    assert store.package("one").tree
    assert store.fsck() == []


def test_a_push_of_another_git_is_recorded_and_can_be_undone(tmp_path: Path) -> None:
    store = new_store(tmp_path / "store")
    first = add(store, "one")
    git(tmp_path, "clone", "-q", str(store.git), "work")
    work = tmp_path / "work"
    (work / "README.md").write_text("hello\n")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "From git")
    git(work, "push", "-q", "origin", "HEAD:main")
    pushed = store.resolve()
    assert pushed != first
    store.tag("v1")
    assert [op.command for op in store.op_log()] == ["tag v1", "(another git)", "add one"]
    store.undo()
    assert store.undo(store.op_log()[2].id).command == "(another git)"
    assert store.resolve() == first


def test_restore_sets_everything_back_and_is_one_operation(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first = add(store, "one")
    with store.write("case") as tx:
        case = tx.detached_commit("Case", files={"case.json": b"{}"})
        tx.set_ref("refs/rover/cases/a", case)
    store.create_branch("side")
    early = store.op_log()[0]
    store.switch("side")
    second = edit(store, "one", {"context/files/data.csv": b"2"})
    store.tag("v1")
    store.delete_branch("main")
    with store.write("case") as tx:
        tx.set_ref("refs/rover/cases/a", None, expect=case)
    assert restore(store, early.id[:9]).id == early.id
    assert (store.branches(), store.tags(), store.cases()) == ({"main": first, "side": first}, {}, {"a": case})
    assert store.current_branch() == "main"
    assert store.packages()[0].tree == store.package("one", first).tree
    last = store.op_log()[0]
    assert (last.summary, last.details["restores"]) == ("op restore (branch side)", early.id)
    assert {m.ref for m in last.moves} == {
        "HEAD", "refs/heads/main", "refs/heads/side", "refs/tags/v1", "refs/rover/cases/a",
    }  # fmt: skip
    restore(store, early.id)
    assert store.op_log()[0] == last  # nothing differed, nothing is recorded
    store.undo()
    assert (store.branches(), list(store.tags()), store.cases()) == ({"side": second}, ["v1"], {})
    assert store.current_branch() == "side"
    assert store.undo().summary == "undo (op restore (branch side))"
    assert store.branches() == {"main": first, "side": first}
    assert store.fsck() == []
    git(store.git, "fsck", "--full", "--strict")


def test_restore_takes_back_what_another_git_did(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first = add(store, "one")
    edit(store, "one", {"context/files/data.csv": b"2"})
    git(store.git, "update-ref", "refs/heads/main", first)
    git(store.git, "update-ref", "refs/heads/pushed", first)
    target = store.op_log()[0]
    restore(store, target.id)
    assert [op.command for op in store.op_log(2)] == ["op restore", "(another git)"]
    assert list(store.branches()) == ["main"]
    store.undo()
    assert store.branches() == {"main": first, "pushed": first}


def test_undo_takes_back_what_another_git_did_first(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first = add(store, "one")
    second = edit(store, "one", {"context/files/data.csv": b"2"})
    git(store.git, "update-ref", "-d", "refs/heads/main")
    assert store.undo().command == "(another git)"
    assert store.resolve() == second
    assert store.undo(store.op_log()[-2].id).command == "edit one"
    assert store.resolve() == first


def test_branches_of_remotes_are_for_undo_alone(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first = add(store, "one")
    with store.write("fetch") as tx:
        tx.move_ref("refs/remotes/origin/main", None, first)
    git(store.git, "update-ref", "refs/remotes/origin/other", first)
    git(store.git, "update-ref", "refs/notes/x", first)
    store.tag("v1")
    assert [op.command for op in store.op_log()] == ["tag v1", "fetch", "add one"]
    restore(store, store.op_log()[-1].id)
    assert store.refs.get("refs/remotes/origin/main") == first
    assert store.undo(store.op_log()[2].id).command == "fetch"
    assert list(store.refs.all("refs/remotes/")) == ["refs/remotes/origin/other"]


def test_what_only_noted_where_a_remote_is_is_passed_over(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first = add(store, "one")
    add(store, "two")
    with store.write("push") as tx:
        tx.move_ref("refs/remotes/origin/main", None, store.resolve())
    assert store.undo().command == "add two"
    assert store.resolve() == first
    assert store.undo().command.startswith("undo")
    assert list(store.refs.all("refs/remotes/")) == ["refs/remotes/origin/main"]


def test_an_operation_that_two_share_is_ambiguous(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    for i in range(20):
        store.tag(f"v{i}")
    digits = [op.id[0] for op in store.op_log()]
    twice = next(d for d in digits if digits.count(d) > 1)
    with pytest.raises(Ambiguous, match=f"{twice} could be"):
        restore(store, twice)
    with pytest.raises(UsageError, match="no operation"):
        restore(store, "")


def test_a_log_of_the_older_form_is_read_and_gone_back_to(tmp_path: Path) -> None:
    """Operations used to hold view.json, without cases."""
    store = new_store(tmp_path)
    first = add(store, "one")
    with store.write("case") as tx:
        tx.set_ref("refs/rover/cases/a", tx.detached_commit("Case", files={"case.json": b"{}"}))
    last = store.op_log()[0]
    old = store.objects.list_tree(store.commit(last.id).tree)
    with store.write() as tx:
        view = json.dumps({"HEAD": "refs/heads/main", "refs/heads/main": first}).encode()
        tree = tx.tree({"op.json": old["op.json"], "view.json": view})
        data = encode_commit(tree, store.commit(last.id).parents, "case", AUTHOR, START)
        older = tx.add(COMMIT, data)
    move(store.refs, {"refs/rover/ops": (last.id, older)})
    store.tag("v1")
    assert [op.command for op in store.op_log()] == ["tag v1", "case", "add one"]
    restore(store, older)
    assert (store.tags(), list(store.cases())) == ({}, ["a"])
    assert store.fsck() == []


def test_a_commit_among_thousands_of_cases_stays_small(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    with store.write("cases") as tx:
        case = tx.detached_commit("Case", files={"case.json": b"{}"})
        for i in range(600):
            tx.set_ref(f"refs/rover/cases/c{i}", case)

    def size() -> int:
        return sum(p.stat().st_size for p in (store.git / "objects/pack").glob("*.pack"))

    before = size()
    edit(store, "one", {"context/files/data.csv": b"2"})
    assert size() - before < 8_000
    assert len(store.cases()) == 600
    store.undo(store.op_log()[1].id)
    assert store.cases() == {}
