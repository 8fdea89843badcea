"""Refs: compare-and-swap, packed refs of another git, names, locks."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from store_samples import add, edit, git, new_store

from rover_store.errors import LostRace, StoreError, UsageError
from rover_store.ref_moves import move
from rover_store.refs import Refs, check_ref

A, B = "a" * 40, "b" * 40


def _refs(tmp_path: Path) -> Refs:
    return new_store(tmp_path).refs


def test_compare_and_swap(tmp_path: Path) -> None:
    refs = _refs(tmp_path)
    move(refs, {"refs/heads/x": (None, A)})
    with pytest.raises(LostRace) as caught:
        move(refs, {"refs/heads/x": (None, B)})
    assert (caught.value.ref, caught.value.found) == ("refs/heads/x", A)
    move(refs, {"refs/heads/x": (A, B)})
    assert refs.get("refs/heads/x") == B
    move(refs, {"refs/heads/x": (B, None)})
    assert refs.get("refs/heads/x") is None
    assert refs.all() == {}
    assert not list((tmp_path / ".rover" / "store.git").rglob("*.lock"))


def test_packed_refs_are_read_moved_and_deleted(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first = add(store, "one")
    store.tag("v1", message="first")
    store.create_branch("side")
    git(store.git, "pack-refs", "--all")
    assert store.refs.loose("refs/heads/") == []
    assert store.branches() == {"main": first, "side": first}
    assert store.tags() == {"v1": first}
    second = edit(store, "one", {"context/files/data.csv": b"2"})
    assert store.branches() == {"main": second, "side": first}
    store.delete_tag("v1")
    store.delete_branch("side")
    assert store.tags() == {}
    assert git(store.git, "for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags") == "refs/heads/main\n"


def test_a_name_is_a_file_or_a_folder(tmp_path: Path) -> None:
    refs = _refs(tmp_path)
    move(refs, {"refs/heads/x": (None, A)})
    with pytest.raises(UsageError, match="beside a ref that is its folder"):
        move(refs, {"refs/heads/x/y": (None, A)})
    move(refs, {"refs/heads/x": (A, None)})
    move(refs, {"refs/heads/x/y": (None, A)})
    with pytest.raises(UsageError, match="beside refs below"):
        move(refs, {"refs/heads/x": (None, A)})
    move(refs, {"refs/heads/x/y": (A, None)})
    move(refs, {"refs/heads/x": (None, A)})  # the empty folder made way
    assert refs.all() == {"refs/heads/x": A}


@pytest.mark.parametrize(
    "name", ["", "a b", "a..b", "../x", "a~1", "a^", "a:b", "a?", "-x", ".x", "x.lock", "x/", "a//b", "a\nb", "@", "x."]
)
def test_names_that_git_refuses(name: str) -> None:
    with pytest.raises(UsageError, match="not a name that a ref can have"):
        check_ref(f"refs/heads/{name}")


def test_an_abandoned_lock_of_another_git_is_removed(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    lock = store.git / "refs" / "heads" / "main.lock"
    lock.touch()
    os.utime(lock, (time.time() - 60,) * 2)
    edit(store, "one", {"context/files/data.csv": b"2"})
    assert not lock.exists()
    assert len(list(store.log())) == 2


def test_garbage_in_a_ref_is_named(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    (store.git / "refs" / "heads" / "bad").write_text("nonsense\n")
    with pytest.raises(StoreError, match="refs/heads/bad is damaged"):
        store.refs.get("refs/heads/bad")
