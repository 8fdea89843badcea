"""Evidence that travels: only when asked for, and as a union."""

from __future__ import annotations

from pathlib import Path

from store_samples import add, git, new_store
from test_evidence import _recorded, _verdict

from rover_store.evidence import rollout_id
from rover_store.names import rollout_path
from rover_store.refs import EVIDENCE
from rover_store.store import Store
from rover_store.transfer import remotes
from rover_store.transfer.transfer import clone, fetch, push


def put(store: Store, *seeds: int, package: str = "one") -> None:
    batch = [_recorded(seed, package, b"out %d" % seed) for seed in seeds]
    store.evidence.put(batch, [_verdict(r) for r in batch])


def seeds(store: Store) -> list[int]:
    return sorted(t.key.seed for _, t in store.evidence.iter_rollouts())


def source(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "source")
    add(store, "one")
    add(store, "two")
    put(store, 1, 2)
    put(store, 3, package="two")
    return store


def test_only_when_asked_for(tmp_path: Path) -> None:
    store = source(tmp_path)
    clone(str(store.root), tmp_path / "without")
    assert seeds(Store.open(tmp_path / "without")) == []
    assert git(tmp_path / "without/.rover/evidence.git", "for-each-ref") == ""
    done = clone(str(store.root), tmp_path / "with", evidence=True)
    copy = Store.open(tmp_path / "with")
    assert done.fetched.evidence > 0
    assert seeds(copy) == [1, 2, 3]
    assert copy.evidence.refs.get(EVIDENCE) == store.evidence.refs.get(EVIDENCE)
    recorded = _recorded(1, "one", b"out 1")
    assert copy.evidence.get_verdict(rollout_id(recorded.trajectory), "d" * 40) == _verdict(recorded)
    assert copy.fsck() == []
    assert fetch(copy, evidence=True).evidence == 0


def test_a_partial_clone_takes_that_of_its_packages(tmp_path: Path) -> None:
    store = source(tmp_path)
    clone(str(store.root), tmp_path / "part", packages=("two",), evidence=True)
    copy = Store.open(tmp_path / "part")
    assert seeds(copy) == [3]
    assert copy.fsck() == []
    put(store, 4, package="two")
    put(store, 5)
    fetch(copy, evidence=True)
    assert seeds(copy) == [3, 4]


def test_two_stores_have_the_union(tmp_path: Path) -> None:
    store = source(tmp_path)
    clone(str(store.root), tmp_path / "bob", evidence=True)
    bob = Store.open(tmp_path / "bob")
    put(store, 10)
    put(bob, 11)
    push(bob, evidence=True)
    assert seeds(store) == [1, 2, 3, 10, 11]
    fetch(bob, evidence=True)
    assert seeds(bob) == [1, 2, 3, 10, 11]
    assert (store.fsck(), bob.fsck()) == ([], [])
    git(store.evidence.git, "fsck", "--strict")


def test_over_a_git_repository(tmp_path: Path) -> None:
    store = source(tmp_path)
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "shared.git")
    shared = tmp_path / "shared.git"
    remotes.add(store, "origin", str(shared))
    push(store)
    assert EVIDENCE not in git(shared, "for-each-ref")
    push(store, evidence=True)
    clone(str(shared), tmp_path / "bob", evidence=True)
    bob = Store.open(tmp_path / "bob")
    assert seeds(bob) == [1, 2, 3]
    put(bob, 20)
    put(store, 21)
    push(bob, evidence=True)
    push(store, evidence=True)
    assert seeds(store) == [1, 2, 3, 20, 21]
    fetch(bob, evidence=True)
    assert seeds(bob) == seeds(store)
    assert (store.fsck(), bob.fsck()) == ([], [])


def test_what_was_pruned_does_not_come_back(tmp_path: Path) -> None:
    store = source(tmp_path)
    clone(str(store.root), tmp_path / "copy", evidence=True)
    copy = Store.open(tmp_path / "copy")
    copy.prune("one", dry_run=False)
    put(store, 6)
    fetch(copy, evidence=True)
    assert seeds(copy) == [1, 2, 3, 6]
    kept = {t.key.seed: bool(t.pruned) for _, t in copy.evidence.iter_rollouts()}
    assert kept == {1: True, 2: True, 3: False, 6: False}
    rollout = rollout_id(_recorded(1, "one", b"out 1").trajectory)
    root = copy.evidence.root()
    assert root is not None
    item = copy.evidence.objects.subtree(root, rollout_path(rollout))
    assert item is not None
    assert sorted(copy.evidence.objects.list_tree(item.id)) == ["trajectory.json", "verdicts"]
    assert copy.fsck() == []
