"""Pruned evidence: scores stay, workspaces go, and what needs them runs again."""

from __future__ import annotations

from pathlib import Path

import pytest
from store_samples import add, git, new_store

from rover_store.care.fsck import fsck
from rover_store.care.gc import gc
from rover_store.care.prune import prune_trajectories
from rover_store.errors import StoreError
from rover_store.evidence import Recorded, rollout_id
from rover_store.names import blob_id
from rover_store.records import Budget, RolloutKey, Trajectory, Turn, Verdict
from rover_store.store import Store
from rover_store.trees import FILE, TreeItem, tree_id

DAY = 86400


def recorded(store: Store, seed: int, package: str = "one", policy: str = "p", end: bytes = b"out" * 400) -> Recorded:
    """A rollout with two turns on the present version of a package."""
    ids = store.package(package).components
    end += f"{seed} {policy}".encode()
    start = {"in.csv": TreeItem(FILE, blob_id(b"in"))}
    after = {**start, "out.csv": TreeItem(FILE, blob_id(end))}
    key = RolloutKey(
        context=ids["context"], task=ids["task"], harness=ids["harness"], policy=policy, seed=seed, budget=Budget(),
        runtime="r",
    )  # fmt: skip
    turns = (Turn(index=0, message="look", tree=tree_id(start)), Turn(index=1, tree=tree_id(after)))
    trajectory = Trajectory(key=key, package=package, start=tree_id(start), turns=turns, final_message="done")
    blobs = {blob_id(b): b for b in (b"in", end)}
    return Recorded(trajectory, blobs, {tree_id(m): m for m in (start, after)})


def verdict(store: Store, one: Recorded, score: float = 1.0) -> Verdict:
    verifier = store.package(one.trajectory.package).components["verifier"]
    return Verdict(rollout=rollout_id(one.trajectory), verifier=verifier, outcome="passed", score=score)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "store")
    add(store, "one")
    add(store, "two")
    return store


def put(store: Store, *rollouts: Recorded) -> list[str]:
    store.evidence.put(rollouts, [verdict(store, one) for one in rollouts])
    return [rollout_id(one.trajectory) for one in rollouts]


def test_a_dry_run_changes_nothing(store: Store) -> None:
    ids = put(store, recorded(store, 1), recorded(store, 2, "two"))
    head = store.evidence.refs.all()
    report = prune_trajectories(store, "one")
    assert (report.dry_run, report.rollouts) == (True, (ids[0],))
    assert [tuple(p) for p in report.parts] == [("one", "p", 1, 2, 1)]
    assert report.size > 0
    assert store.evidence.refs.all() == head


def test_scores_stay_and_workspaces_go(store: Store) -> None:
    one, two = recorded(store, 1), recorded(store, 2, "two")
    ids = put(store, one, two)
    end = one.trajectory.turns[-1].tree
    report = prune_trajectories(store, "one", dry_run=False)
    stub = store.evidence.get_rollout(ids[0])
    assert stub is not None
    assert (stub.key, stub.package, stub.turns, stub.pruned) == (one.trajectory.key, "one", (), end)
    assert stub.end_tree == end == one.trajectory.end_tree
    assert store.evidence.get_verdict(ids[0], verdict(store, one).verifier) == verdict(store, one)
    assert store.evidence.get_rollout(ids[1]) == two.trajectory
    assert [i for i, _ in store.evidence.iter_rollouts("one")] == [ids[0]]
    assert fsck(store) == []
    before = sum(p.path.stat().st_size for p in store.evidence.objects.packs)
    gc(store, dry_run=False, grace=0)
    after = sum(p.path.stat().st_size for p in store.evidence.objects.packs)
    assert 0 < report.size <= before - after + 4000
    again = Store.open(store.root)
    assert not again.evidence.objects.exists(end)
    assert again.evidence.objects.exists(two.trajectory.turns[-1].tree)
    assert fsck(again) == []
    git(again.evidence.git, "fsck", "--full", "--strict")
    assert prune_trajectories(again, "one").rollouts == ()


def test_which_are_pruned(store: Store) -> None:
    ids = put(store, recorded(store, 1), recorded(store, 1, policy="solver:x"), recorded(store, 1, "two"))
    assert prune_trajectories(store, "one", policy="solver:*").rollouts == (ids[1],)
    assert set(prune_trajectories(store).rollouts) == set(ids)
    assert prune_trajectories(store, "none*").rollouts == ()


def test_before_a_time_outlives_an_earlier_pruning(tmp_path: Path) -> None:
    now = [1_700_000_000]
    store = Store.init(tmp_path, clock=lambda: now[0])
    add(store, "one")
    ids = []
    for day in range(4):
        now[0] = 1_700_000_000 + day * DAY
        ids += put(store, recorded(store, day))
    assert set(prune_trajectories(store, before=1_700_000_000 + DAY + 1).rollouts) == set(ids[:2])
    now[0] += DAY
    assert prune_trajectories(store, before=1_700_000_000 + 1, dry_run=False).rollouts == (ids[0],)
    assert set(prune_trajectories(store, before=1_700_000_000 + DAY + 1).rollouts) == {ids[1]}
    assert fsck(store) == []


def test_a_rollout_that_runs_again_is_whole_again(store: Store) -> None:
    one = recorded(store, 1)
    (name,) = put(store, one)
    prune_trajectories(store, dry_run=False)
    store.evidence.put([one])
    assert store.evidence.get_rollout(name) == one.trajectory
    assert store.evidence.get_verdict(name, verdict(store, one).verifier) is not None
    assert fsck(store) == []


def test_one_that_ends_otherwise_loses_its_old_verdicts(store: Store) -> None:
    one = recorded(store, 1)
    (name,) = put(store, one)
    prune_trajectories(store, dry_run=False)
    other = recorded(store, 1, end=b"something else")
    store.evidence.put([other])
    assert store.evidence.get_rollout(name) == other.trajectory
    assert store.evidence.get_verdict(name, verdict(store, one).verifier) is None
    store.evidence.put([], [verdict(store, other, 0.0)])
    found = store.evidence.get_verdict(name, verdict(store, one).verifier)
    assert found is not None
    assert found.score == 0.0


def test_pruned_workspaces_cannot_be_read(store: Store) -> None:
    one = recorded(store, 1)
    put(store, one)
    prune_trajectories(store, dry_run=False)
    gc(store, dry_run=False, grace=0)
    with pytest.raises(StoreError, match="not found"):
        Store.open(store.root).evidence.tree(one.trajectory.turns[-1].tree)
