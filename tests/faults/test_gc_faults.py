"""Kills and disk faults at every system call of a collection and a pruning: nothing that was there is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from injection import Fault, Played, copy, judge, kinds, play, template, trajectory

from rover_store.care.gc import gc
from rover_store.care.prune import prune_trajectories
from rover_store.evidence import rollout_id
from rover_store.store import Store

#: so many faults, spread evenly over all
FAULTS = 20
Steps = dict[str, Callable[[Store], Any]]
STEPS: Steps = {
    "gc": lambda store: gc(store, dry_run=False, grace=0) and None,
    "prune": lambda store: prune_trajectories(store, dry_run=False) and None,
    "gc again": lambda store: gc(store, dry_run=False, grace=0, forget_before=1_700_000_020) and None,
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound") / "store"
    template(folder)
    store = Store.open(folder, clock=lambda: 1_750_000_000)
    for seed in (1, 2, 3):
        store.evidence.put([(trajectory(seed), {})])
    store.put_files({"proposal/a": b"nobody needs this"})
    return folder


def wrong(folder: Path, played: Played) -> list[str]:
    """What is wrong with what is left. Operations have other ids when older ones were forgotten."""
    return [what for what in judge(folder, played) if not what.startswith("lost: the operation of")]


def test_every_call(sound: Path, tmp_path: Path) -> None:
    copy(sound, tmp_path / "clean")
    store = Store.open(sound)
    history = [entry.id for entry in store.log()]
    head = {path: store.objects.read(item.id) for path, item in store.objects.read_tree(store.commit().tree).items()}
    clean = play(tmp_path / "clean", None, STEPS)
    calls = clean.calls
    assert wrong(tmp_path / "clean", clean) == []
    faults = [Fault(n, kind) for n, call in enumerate(calls) for kind in kinds(call.name)]
    assert len(faults) > 100
    for n, fault in enumerate(faults[:: max(1, len(faults) // FAULTS)]):
        folder = tmp_path / f"run-{n}"
        copy(sound, folder)
        played = play(folder, fault, STEPS)
        left = Store.open(folder, clock=lambda: 1_940_000_000)
        assert [entry.id for entry in left.log()] == history, (fault, calls[fault.at])
        there = left.objects.read_tree(left.commit().tree)
        assert {path: left.objects.read(item.id) for path, item in there.items()} == head
        for seed in (1, 2, 3):
            assert left.evidence.get_rollout(rollout_id(trajectory(seed))) is not None
        assert wrong(folder, played) == [], (fault, calls[fault.at])
