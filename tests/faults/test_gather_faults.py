"""A pull of evidence that is killed, or whose disk fails, at any step: nothing half, and running again finishes."""

from __future__ import annotations

import shutil
from pathlib import Path

from injection import Fault, kinds
from store_samples import git, new_store
from test_transfer_faults import play

from rover_store.evidence import Recorded
from rover_store.names import blob_id
from rover_store.records import Budget, RolloutKey, Trajectory, Turn
from rover_store.store import Store
from rover_store.transfer import gather as gathering
from rover_store.transfer.bundle import write_bundle
from rover_store.transfer.gather import gather
from rover_store.transfer.sources import opened
from rover_store.trees import FILE, TreeItem, tree_id

COUNT = 5


def _recorded(seed: int) -> Recorded:
    key = RolloutKey(
        context="a" * 40, task="b" * 40, harness="c" * 40, policy="p", seed=seed, budget=Budget(), runtime="r"
    )
    data = b"out %d" % seed
    manifest = {"out.csv": TreeItem(FILE, blob_id(data))}
    tree = tree_id(manifest)
    trajectory = Trajectory(key=key, package="one", start=tree, turns=(Turn(index=0, tree=tree),))
    return Recorded(trajectory, {blob_id(data): data}, {tree: manifest})


def _gather(folder: Path) -> object:
    gathering.BATCH = 2
    store = Store.open(folder / "mine", clock=lambda: 1_800_000_000)
    with opened(store, (str(folder / "theirs.bundle"),)) as found:
        return gather(store, found)


def test_no_step_leaves_anything_half(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    theirs = new_store(ready / "theirs")
    theirs.evidence.put([_recorded(seed) for seed in range(COUNT)])
    write_bundle(theirs, ready / "theirs.bundle")
    new_store(ready / "mine")
    shutil.copytree(ready, tmp_path / "clean", symlinks=True)
    status, calls = play(tmp_path / "clean", _gather, None)
    assert status == 0
    assert len(calls) > 20
    done = set()
    for i, at in enumerate(range(0, len(calls), max(1, len(calls) // 16))):
        chosen = kinds(calls[at])
        folder = tmp_path / f"run{i}"
        shutil.copytree(ready, folder, symlinks=True)
        play(folder, _gather, Fault(at, chosen[i % len(chosen)]))
        store = Store.open(folder / "mine")
        done.add(len(list(store.evidence.ids())))
        assert store.fsck() == []
        _gather(folder)
        assert Store.open(folder / "mine").evidence.root() == theirs.evidence.root()
        git(store.evidence.git, "fsck", "--strict")
        assert not list(store.folder.glob("incoming-*"))
    assert done > {0, COUNT}  # some were cut between two batches
