"""Partial clones: a history of some packages with the ids of the source, pulled again and pushed back."""

from __future__ import annotations

from pathlib import Path

import pytest
from store_samples import add, edit, git, new_store

from rover_store.errors import UsageError
from rover_store.store import Store
from rover_store.transfer import remotes
from rover_store.transfer.transfer import clone, fetch, pull, push

INSTRUCTION = "task/instruction.md"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = new_store(tmp_path / "source")
    add(made, "other-1")
    add(made, "orders-1", resources={"files/orders": b"id\n1\n", "files/extra": b"x\n"})
    add(made, "orders-2")
    edit(made, "other-1", {INSTRUCTION: b"Another."})
    edit(made, "orders-1", {INSTRUCTION: b"Once more."}, "Change orders-1\n\nKey: value")
    return made


def part(store: Store, folder: Path, *globs: str) -> Store:
    clone(str(store.root), folder, packages=globs or ("orders-*",))
    return Store.open(folder)


def test_what_a_partial_clone_holds(store: Store, tmp_path: Path) -> None:
    copy = part(store, tmp_path / "copy")
    held = {p.name: p for p in store.packages(pattern="orders-*")}
    assert {p.name: p for p in copy.packages()} == held
    assert copy.resources() == store.resources()
    log, whole = list(copy.log()), list(store.log())
    assert [e.message.splitlines()[0] for e in log] == ["Change orders-1", "Add orders-2", "Add orders-1"]
    assert copy.commit("HEAD").trailers == {"Key": "value", "Rover-Source": whole[0].id}
    assert [(e.author, e.time) for e in log] == [(e.author, e.time) for e in whole if "other-1" not in e.message]
    there = git(copy.git, "cat-file", "--batch-all-objects", "--batch-check")
    assert store.package("other-1").tree not in there
    assert copy.stale() == store.stale("HEAD", "orders-*")
    assert copy.fsck() == []
    git(tmp_path, "clone", "-q", str(copy.git), "again")
    git(tmp_path / "again", "fsck", "--strict")
    assert part(store, tmp_path / "twin").resolve() == copy.resolve()


def test_resources_come_and_go_with_what_needs_them(store: Store, tmp_path: Path) -> None:
    copy = part(store, tmp_path / "copy", "orders-2", "other-*")
    assert copy.resources() == {}
    assert [p.name for p in copy.packages()] == ["orders-2", "other-1"]


def test_pull_of_a_partial_clone(store: Store, tmp_path: Path) -> None:
    copy = part(store, tmp_path / "copy")
    head = copy.resolve()
    edit(store, "other-1", {INSTRUCTION: b"Not for you."})
    assert pull(copy).merged.status == "up to date"
    assert copy.resolve() == head
    edit(store, "orders-2", {INSTRUCTION: b"For you."})
    add(store, "orders-3")
    assert pull(copy).merged.status == "fast-forward"
    assert [p.name for p in copy.packages()] == ["orders-1", "orders-2", "orders-3"]
    assert copy.resolve() == part(store, tmp_path / "twin").resolve()
    assert copy.fsck() == []


def test_push_replays_on_the_whole_branch(store: Store, tmp_path: Path) -> None:
    copy = part(store, tmp_path / "copy")
    edit(copy, "orders-1", {INSTRUCTION: b"Mine."}, "Mine")
    add(copy, "orders-9")
    edit(store, "other-1", {INSTRUCTION: b"Meanwhile."})
    done = push(copy)
    assert done.pushed == ("refs/heads/main",)
    assert [e.message for e in store.log(limit=3)] == ["Add orders-9", "Mine", "Edit other-1"]
    assert [p.name for p in store.packages()] == ["orders-1", "orders-2", "orders-9", "other-1"]
    assert store.package("orders-1") == copy.package("orders-1")
    assert store.fsck() == []
    assert copy.fsck() == []
    assert copy.resolve() == part(store, tmp_path / "twin").resolve()
    assert push(copy).pushed == ()
    assert pull(copy).merged.status == "up to date"


def test_changes_of_one_package_on_both_sides(store: Store, tmp_path: Path) -> None:
    copy = part(store, tmp_path / "copy")
    edit(copy, "orders-1", {INSTRUCTION: b"Mine."})
    edit(store, "orders-1", {"verifier/checks/main.py": b"pass\n"})
    push(copy)
    assert store.objects.read(store.find(f"HEAD:orders-1/{INSTRUCTION}").id) == b"Mine."
    edit(copy, "orders-2", {INSTRUCTION: b"Mine."})
    edit(store, "orders-2", {INSTRUCTION: b"Theirs."})
    before = store.resolve()
    with pytest.raises(UsageError, match="orders-2 was changed there as well"):
        push(copy)
    assert store.resolve() == before
    result = pull(copy)
    assert result.merged.status == "conflicts"
    from rover_store.merging.finish import continue_merge
    from rover_store.merging.open_merges import choose

    choose(copy, "ours")
    continue_merge(copy)
    push(copy)
    assert store.objects.read(store.find(f"HEAD:orders-2/{INSTRUCTION}").id) == b"Mine."
    assert store.package("other-1").name == "other-1"
    assert store.fsck() == []


def test_through_a_git_repository(store: Store, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "shared.git")
    remotes.add(store, "origin", str(tmp_path / "shared.git"))
    push(store)
    clone(str(tmp_path / "shared.git"), tmp_path / "copy", packages=("orders-*",))
    copy = Store.open(tmp_path / "copy")
    assert copy.resolve() == part(store, tmp_path / "twin").resolve()
    edit(copy, "orders-2", {INSTRUCTION: b"Mine."})
    push(copy)
    assert pull(store).merged.status == "fast-forward"
    assert store.package("orders-2") == copy.package("orders-2")
    git(tmp_path / "shared.git", "fsck", "--strict")


def test_nothing_matches(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no package"):
        clone(str(store.root), tmp_path / "none", packages=("nothing-*",))
    assert not (tmp_path / "none").exists()
    copy = part(store, tmp_path / "copy")
    assert fetch(copy).updates == ()
