"""Several refs at once, refs in odd states, and locks that somebody else left."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from store_samples import START, add, edit, git, new_store

from rover_store import ref_moves
from rover_store.errors import LostRace, NotFound, StoreError, UsageError
from rover_store.ref_moves import Prepared, drop_lock, move
from rover_store.refs import Refs
from rover_store.store import Store

A, B, C = "a" * 40, "b" * 40, "c" * 40
Z = "0" * 40


def _refs(tmp_path: Path) -> Refs:
    return new_store(tmp_path).refs


def _locks(refs: Refs) -> list[str]:
    return [str(path) for path in refs.git.rglob("*.lock")]


def test_all_move_or_none(tmp_path: Path) -> None:
    refs = _refs(tmp_path)
    move(refs, {"refs/heads/x": (None, A), "refs/tags/t": (None, B), "HEAD": ("refs/heads/main", "refs/heads/x")})
    assert (refs.all(), refs.head()) == ({"refs/heads/x": A, "refs/tags/t": B}, "refs/heads/x")
    with pytest.raises(LostRace) as caught:
        move(refs, {"refs/heads/x": (A, C), "refs/tags/t": (A, C), "HEAD": ("refs/heads/x", "refs/heads/main")})
    assert (caught.value.ref, caught.value.found) == ("refs/tags/t", B)
    assert (refs.all(), refs.head()) == ({"refs/heads/x": A, "refs/tags/t": B}, "refs/heads/x")
    assert _locks(refs) == []


def test_what_is_prepared_and_given_up_leaves_nothing(tmp_path: Path) -> None:
    refs = _refs(tmp_path)
    prepared = Prepared(refs, {"refs/heads/x": (None, A)})
    assert len(_locks(refs)) == 1
    assert refs.all() == {}
    assert prepared.abort()
    assert _locks(refs) == []


def test_a_ref_takes_the_place_of_a_folder_of_refs_and_back(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    head = add(store, "one")
    store.create_branch("x/y")
    move(store.refs, {"refs/heads/x/y": (head, None), "refs/heads/x": (None, head)})
    assert store.branches() == {"main": head, "x": head}
    assert git(store.git, "for-each-ref", "--format=%(refname)", "refs/heads").split() == [
        "refs/heads/main", "refs/heads/x",
    ]  # fmt: skip
    move(store.refs, {"refs/heads/x": (head, None), "refs/heads/x/y": (None, head)})
    assert store.branches() == {"main": head, "x/y": head}
    git(store.git, "rev-parse", "refs/heads/x/y")
    move(store.refs, {"refs/heads/x/y": (head, None)})
    move(store.refs, {"refs/heads/x": (None, head)})
    assert store.branches() == {"main": head, "x": head}
    git(store.git, "fsck", "--full", "--strict")


def test_packed_refs_are_deleted_with_their_peeled_lines(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    head = add(store, "one")
    for name in ("a", "b", "c"):
        store.tag(name, message=name)
    git(store.git, "pack-refs", "--all")
    store.delete_tag("b")
    assert sorted(store.tags()) == ["a", "c"]
    assert git(store.git, "rev-parse", "a^{commit}", "c^{commit}").split() == [head, head]
    assert git(store.git, "tag", "-l").split() == ["a", "c"]


def test_thousands_of_refs_are_read_once(tmp_path: Path) -> None:
    refs = _refs(tmp_path)
    move(refs, {f"refs/rover/cases/c{i}": (None, A) for i in range(300)})
    old = time.time() - 100
    os.utime(refs.git / "refs/rover/cases", (old, old))
    assert len(refs.remembered("refs/rover/")) == 300
    (refs.git / "refs/rover/cases/c7").write_text(B + "\n")  # in place, which no git does
    os.utime(refs.git / "refs/rover/cases", (old, old))
    assert refs.remembered("refs/rover/")["refs/rover/cases/c7"] == A
    assert refs.get("refs/rover/cases/c7") == B
    move(refs, {"refs/rover/cases/c8": (A, C)})
    found = refs.remembered("refs/rover/")
    assert (found["refs/rover/cases/c7"], found["refs/rover/cases/c8"]) == (B, C)


def test_refs_are_found_while_another_git_packs_them(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    head = add(store, "one")
    for i in range(20):
        store.create_branch(f"b{i}")
    for _ in range(3):
        git(store.git, "pack-refs", "--all")
        assert len(store.branches()) == 21
        for i in range(20):
            move(store.refs, {f"refs/heads/b{i}": (head, None)})
            move(store.refs, {f"refs/heads/b{i}": (None, head)})
        assert len(store.branches()) == 21


# --- odd states ------------------------------------------------------------------------------------------
def test_an_alias_is_read_and_not_written_over(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    head = add(store, "one")
    git(store.git, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    assert store.branches() == {"alias": head, "main": head}
    with pytest.raises(UsageError, match="refs/heads/alias is an alias of refs/heads/main"):
        move(store.refs, {"refs/heads/alias": (head, None)})
    git(store.git, "symbolic-ref", "HEAD", "refs/heads/alias")
    assert store.current_branch() == "main"
    second = edit(store, "one", {"context/files/data.csv": b"2"})
    assert store.branches() == {"alias": second, "main": second}


def test_a_link_is_a_symbolic_ref_as_in_old_gits(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    (store.git / "HEAD").unlink()
    (store.git / "HEAD").symlink_to("refs/heads/main")
    assert store.current_branch() == "main"
    head = add(store, "one")
    assert store.current_branch() == "main"
    assert store.resolve() == head
    assert git(store.git, "rev-parse", "HEAD").strip() == head


@pytest.mark.parametrize("how", ["symbolic", "links", "folder"])
def test_circles_end(tmp_path: Path, how: str) -> None:
    store = new_store(tmp_path)
    head = add(store, "one")
    heads = store.git / "refs" / "heads"
    if how == "symbolic":
        (heads / "a").write_text("ref: refs/heads/b\n")
        (heads / "b").write_text("ref: refs/heads/a\n")
    elif how == "links":
        (heads / "a").symlink_to("b")
        (heads / "b").symlink_to("a")
    else:
        (heads / "a").symlink_to(".")
    if how == "folder":
        assert store.branches() == {"main": head}
    else:
        with pytest.raises(StoreError, match=r"refs/heads/\w is damaged"):
            store.refs.get("refs/heads/a")
    second = edit(store, "one", {"context/files/data.csv": b"2"})
    assert store.resolve() == second
    assert [op.command for op in store.op_log()] == ["edit one", "add one"]


@pytest.mark.parametrize("garbage", [b"nonsense\n", b"", b"\xff\xfe\x00", b"ref: ../../etc/passwd\n", b"a" * 5000])
def test_garbage_in_a_branch_is_named_and_undone(tmp_path: Path, garbage: bytes) -> None:
    store = new_store(tmp_path)
    head = add(store, "one")
    store.create_branch("side")
    (store.git / "refs" / "heads" / "main").write_bytes(garbage)
    with pytest.raises(StoreError, match="refs/heads/main is damaged"):
        store.refs.get("refs/heads/main")
    with pytest.raises(StoreError):
        edit(store, "one", {"context/files/data.csv": b"2"})
    assert store.undo().command == "(another git)"
    assert store.branches() == {"main": head, "side": head}
    assert edit(store, "one", {"context/files/data.csv": b"2"})


def test_garbage_in_head_is_named_and_undone(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    head = add(store, "one")
    store.create_branch("side")
    (store.git / "HEAD").write_text("nonsense\n")
    with pytest.raises(StoreError, match="HEAD does not name a branch or a commit: 'nonsense'"):
        store.resolve()
    assert store.undo().command == "(another git)"
    assert (store.current_branch(), store.resolve()) == ("main", head)
    (store.git / "HEAD").write_text("nonsense\n")
    store.switch("side")
    assert store.current_branch() == "side"


def test_a_detached_head(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first = add(store, "one")
    second = edit(store, "one", {"context/files/data.csv": b"2"})
    (store.git / "HEAD").write_text(first + "\n")
    assert (store.current_branch(), store.resolve()) == (None, first)
    with pytest.raises(UsageError, match="HEAD is detached"):
        edit(store, "one", {"context/files/data.csv": b"3"})
    store.tag("v1")
    assert store.tags() == {"v1": first}
    store.undo()
    assert store.undo(store.op_log()[2].id).command == "(another git)"
    assert (store.current_branch(), store.resolve()) == ("main", second)


@pytest.mark.parametrize("kind", ["blob", "tree", "missing"])
def test_a_branch_moved_by_hand_to_what_is_no_commit(tmp_path: Path, kind: str) -> None:
    store = new_store(tmp_path)
    head = add(store, "one")
    tree = store.package("one").tree
    blob = store.objects.subtree(tree, "task/instruction.md")
    assert blob is not None
    value = {"blob": blob.id, "tree": tree, "missing": "1" * 40}[kind]
    (store.git / "refs" / "heads" / "main").write_text(value + "\n")
    for rev in ("main", "HEAD"):
        with pytest.raises(StoreError, match=f"^refs/heads/main names {value}, which") as caught:
            store.packages(rev)
        assert (caught.value.exit_code, "rover undo" in caught.value.hint) == (3, True)
    assert store.op_log()[0].command == "add one"
    assert store.undo().moves == (("refs/heads/main", head, value),)
    assert store.resolve() == head
    assert store.fsck() == []
    git(store.git, "fsck", "--full", "--strict")


def test_a_branch_never_moves_to_what_is_no_commit(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    with pytest.raises(NotFound), store.write("bad") as tx:
        tx.move_ref("refs/heads/bad", None, store.package("one").tree)
    with pytest.raises(NotFound), store.write("bad") as tx:
        tx.move_ref("refs/heads/bad", None, "1" * 40)
    assert list(store.branches()) == ["main"]


# --- locks of others -------------------------------------------------------------------------------------
def test_a_lock_that_is_held_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store(tmp_path)
    head = add(store, "one")
    lock = store.git / "refs" / "heads" / "main.lock"
    lock.write_text(head + "\n")
    monkeypatch.setattr(ref_moves, "PATIENCE", 0.1)
    with pytest.raises(StoreError, match=r"another git holds .*main.lock for too long") as caught:
        edit(store, "one", {"context/files/data.csv": b"2"})
    assert "remove that file" in caught.value.hint
    assert store.resolve() == head
    assert lock.exists()
    lock.unlink()
    edit(store, "one", {"context/files/data.csv": b"2"})


def test_a_lock_of_the_future_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refs = _refs(tmp_path)
    lock = refs.git / "refs" / "heads" / "x.lock"
    lock.touch()
    os.utime(lock, (time.time() + 10_000,) * 2)
    monkeypatch.setattr(ref_moves, "PATIENCE", 0.1)
    with pytest.raises(StoreError, match="for too long"):
        move(refs, {"refs/heads/x": (None, A)})


def test_only_our_locks_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "x"
    lock = tmp_path / "x.lock"
    for text, value, gone in ((A, A, True), (A[:7], A, True), (B, A, False), ("", A, True), ("", None, True),
                              (B, None, False)):  # fmt: skip
        lock.write_text(text)
        drop_lock(path, value)
        assert lock.exists() is not gone, (text, value)


def test_the_journal_of_a_deletion_frees_packed_refs(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    head = add(store, "one")
    store.create_branch("side")
    git(store.git, "pack-refs", "--all")
    (store.git / "packed-refs.lock").write_text(ref_moves.PACKED_HEAD)
    (store.git / "refs/heads/side.lock").touch()
    (store.git / "rover.flock").write_text(f"ref refs/heads/side {head} -\n")
    store = Store.open(tmp_path, clock=lambda: START)
    store.delete_branch("side")
    assert list(store.branches()) == ["main"]
    assert _locks(store.refs) == []
