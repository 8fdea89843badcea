"""Rollouts and verdicts, keyed by content."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
from store_samples import add, git, new_store

from rover_store.errors import NotFound, StoreError
from rover_store.evidence import Recorded, rollout_id
from rover_store.names import blob_id
from rover_store.records import Budget, RolloutKey, Trajectory, Turn, Verdict
from rover_store.store import Store
from rover_store.trees import EMPTY_TREE, FILE, TreeItem, tree_id

V = "d" * 40


def _recorded(seed: int, package: str = "one", content: bytes = b"out") -> Recorded:
    manifest = {"data/in.csv": TreeItem(FILE, blob_id(b"in")), "out.csv": TreeItem(FILE, blob_id(content))}
    start = {"data/in.csv": manifest["data/in.csv"]}
    key = RolloutKey(
        context="a" * 40, task="b" * 40, harness="c" * 40, policy="p", seed=seed, budget=Budget(), runtime="r"
    )
    trees = {tree_id(m): m for m in (manifest, start)}
    turns = (Turn(index=0, tree=tree_id(start)), Turn(index=1, tree=tree_id(manifest)))
    trajectory = Trajectory(key=key, package=package, start=tree_id(start), turns=turns)
    return Recorded(trajectory, {blob_id(b): b for b in (b"in", content)}, trees)


def _verdict(recorded: Recorded, verifier: str = V) -> Verdict:
    return Verdict(rollout=rollout_id(recorded.trajectory), verifier=verifier, outcome="passed", score=1.0)


def test_what_is_put_is_found(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    recorded = _recorded(1)
    rollout = rollout_id(recorded.trajectory)
    assert store.evidence.get_rollout(rollout) is None
    assert list(store.evidence.iter_rollouts()) == []
    store.evidence.put([recorded], [_verdict(recorded)])
    evidence = Store.open(tmp_path).evidence
    assert evidence.get_rollout(rollout) == recorded.trajectory
    assert evidence.get_verdict(rollout, V) == _verdict(recorded)
    assert evidence.get_verdict(rollout, "e" * 40) is None
    assert evidence.get_rollout(rollout) is not None
    end = evidence.tree(recorded.trajectory.turns[-1].tree)
    assert {path: evidence.read(item.id) for path, item in end.items()} == {"data/in.csv": b"in", "out.csv": b"out"}
    git(evidence.git, "fsck", "--full", "--strict")
    assert store.fsck() == []


def test_one_pack_a_put_and_nothing_twice(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.put_files({"in": b"in"})
    batch = [_recorded(seed) for seed in range(20)]
    store.evidence.put(batch, [_verdict(r) for r in batch])
    (pack,) = store.evidence.objects.packs
    assert bytes.fromhex(blob_id(b"in")) not in set(pack.names())  # the packages hold it
    store.evidence.put(batch, [_verdict(r) for r in batch])
    assert len(store.evidence.objects.packs) == 1
    store.evidence.put([], [_verdict(batch[0], "e" * 40)])
    assert len(store.evidence.objects.packs) == 2
    assert len(list(store.evidence.iter_verdicts(rollout=rollout_id(batch[0].trajectory)))) == 2


def test_the_first_writer_wins(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first, second = _recorded(1), _recorded(1, content=b"different")
    store.evidence.put([first])
    store.evidence.put([tuple(second)])
    assert store.evidence.get_rollout(rollout_id(first.trajectory)) == first.trajectory


def test_iteration_by_what_a_rollout_depends_on(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    batch = [_recorded(1), _recorded(2), _recorded(3, package="two")]
    store.evidence.put(batch, [_verdict(r) for r in batch])
    ids = sorted(rollout_id(r.trajectory) for r in batch)
    assert [i for i, _ in store.evidence.iter_rollouts()] == ids == list(store.evidence.ids())
    assert [t.key.seed for _, t in store.evidence.iter_rollouts("two")] == [3]
    assert len(list(store.evidence.iter_rollouts(context="a" * 40, policy="p"))) == 3
    assert list(store.evidence.iter_rollouts(harness="a" * 40)) == []
    assert [v.rollout for v in store.evidence.iter_verdicts(verifier=V)] == ids
    assert list(store.evidence.iter_verdicts(verifier="e" * 40)) == []


def test_an_empty_workspace(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    trajectory = _recorded(1).trajectory.model_copy(update={"start": EMPTY_TREE, "turns": ()})
    store.evidence.put([(trajectory, {})])
    assert store.evidence.tree(EMPTY_TREE) == {}
    assert store.fsck() == []
    git(store.evidence.git, "fsck", "--full", "--strict")


def test_what_is_incomplete_is_refused_whole(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    good, bad = _recorded(1), _recorded(2, content=b"other")
    with pytest.raises(StoreError, match="its manifest was not given"):
        store.evidence.put([good, bad._replace(trees={})])
    with pytest.raises(StoreError, match="does not have the id"):
        store.evidence.put([good, bad._replace(blobs={"1" * 40: b"x"})])
    with pytest.raises(StoreError, match="does not have the id"):
        store.evidence.put([bad._replace(trees={"1" * 40: {}})])
    with pytest.raises(NotFound, match="rollout not found"):
        store.evidence.put([good], [_verdict(bad)])
    assert store.evidence.objects.packs == []
    assert list(store.evidence.iter_rollouts()) == []


def test_a_manifest_whose_blob_is_nowhere_is_refused(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    with pytest.raises(StoreError, match=r"out\.csv.*neither given nor stored"):
        store.evidence.put([_recorded(1)._replace(blobs={blob_id(b"in"): b"in"})])


def _put_many(folder: Path, start: int) -> None:
    store = Store.open(folder)
    for seed in range(start, start + 10):
        recorded = _recorded(seed)
        store.evidence.put([recorded], [_verdict(recorded)])


def test_two_processes(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_put_many, args=(tmp_path, start)) for start in (0, 5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert sorted(t.key.seed for _, t in store.evidence.iter_rollouts()) == list(range(15))
    assert len(list(store.evidence.iter_verdicts())) == 15
    assert store.fsck() == []


def test_what_a_turn_left_is_found_by_its_id(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    recorded = _recorded(1)
    store.evidence.put([recorded], [])
    start, end = (turn.tree for turn in recorded.trajectory.turns)
    find = store.evidence.find
    assert (find(start).kind, find(end[:12]).id) == ("tree", end)
    assert find(f"{end[:12]}:out.csv").id == blob_id(b"out")
    assert find(f"{end}:data").kind == "tree"
    assert find(blob_id(b"in")[:8]).kind == "blob"
    head = store.evidence.refs.get("refs/rover/evidence")
    for word in (f"{end}:gone", "HEAD", "0123456789ab", str(head), f"{'0' * 40}:x", ""):
        with pytest.raises(NotFound):
            find(word)
