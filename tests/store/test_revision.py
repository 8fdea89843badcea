"""Revision syntax, checked against real git where git knows it too."""

from __future__ import annotations

from pathlib import Path

import pytest
from store_samples import add, edit, git, new_store

from rover_store.errors import Ambiguous, NotFound
from rover_store.names import blob_id
from rover_store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path)
    first = add(store, "one")
    second = edit(store, "one", {"context/files/data.csv": b"2"})
    store.create_branch("side", first)
    store.switch("side")
    third = edit(store, "one", {"task/instruction.md": b"Other."})
    store.switch("main")
    with store.write() as tx:
        tx.commit("Merge", parents=[second, third])
    store.tag("v1", "HEAD~1", "the first")
    return store


@pytest.mark.parametrize(
    "rev",
    ["HEAD", "main", "refs/heads/main", "heads/main", "v1", "tags/v1", "side", "HEAD~1", "HEAD~2", "HEAD^", "HEAD^2",
     "HEAD^2~1", "main~1^1", "HEAD^0", "HEAD~0", "v1~1", "HEAD^^"],
)  # fmt: skip
def test_as_git_resolves(store: Store, rev: str) -> None:
    assert store.resolve(rev) == git(store.git, "rev-parse", f"{rev}^{{commit}}").strip()


def test_ids(store: Store) -> None:
    head = store.resolve()
    assert store.resolve(head) == head
    assert store.resolve(head[:10]) == head
    assert store.resolve(head[:10] + "~1") == store.resolve("HEAD~1")
    assert store.find(store.package("one").tree[:12]).kind == "tree"


@pytest.mark.parametrize(
    "rev", ["nope", "HEAD~9", "HEAD^3", "ab" * 20, "deadbeef", "a b", "../x", "HEAD:nope", "x\n", "\0", "é" * 300]
)
def test_unknown(store: Store, rev: str) -> None:
    with pytest.raises(NotFound, match="not found"):
        store.find(rev)


def test_paths_name_packages_without_the_fan_out(store: Store) -> None:
    package = store.package("one")
    assert store.find("HEAD:one").id == package.tree
    assert store.find("main:one/task").id == package.components["task"]
    assert store.find("HEAD:one/context/files/data.csv").id == blob_id(b"2")
    assert store.find(":one/task/instruction.md").kind == "blob"
    assert store.find("HEAD:packages").kind == "tree"
    assert store.find("HEAD:").id == store.commit().tree


def test_ambiguous_names_the_candidates(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    seen: dict[str, str] = {}
    for i in range(2000):
        with store.write() as tx:
            commits = [tx.detached_commit(f"{i} {k}", base=store.resolve()) for k in range(400)] if i else [
                tx.commit("First", parents=())
            ]
        for commit in commits:
            if commit[:4] in seen:
                with pytest.raises(Ambiguous) as caught:
                    store.resolve(commit[:4])
                assert {commit, seen[commit[:4]]} <= set(caught.value.candidates)
                assert caught.value.exit_code == 2
                return
            seen[commit[:4]] = commit
    raise AssertionError("no two of many ids share four digits")
