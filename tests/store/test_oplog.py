"""The operation log and undo."""

from __future__ import annotations

from pathlib import Path

import pytest
from store_samples import add, edit, git, new_store

from rover_store.errors import UsageError


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
