"""A sample of the faults of `python tests/crashes.py`: kills and disk faults at system calls of a script of writes."""

from __future__ import annotations

import pytest
from crashes import measure, plan, table
from injection import KILLS, STEPS, Call, kinds

RUNS = 45


@pytest.mark.timeout(300)
def test_a_sample_of_kills_and_disk_faults(tmp_path_factory: pytest.TempPathFactory) -> None:
    killed = failed = acknowledged = 0
    for fault, call, row in measure(tmp_path_factory.mktemp("crashes"), seed=1, runs=RUNS):
        assert row["wrong"] == [], f"{fault} at {call}"
        killed, failed = killed + row["killed"], failed + row["failed"]
        acknowledged += row["acknowledged"]
        assert row["killed"] == (fault.kind in KILLS), f"{fault} at {call}"
    assert killed > RUNS / 4
    assert failed > RUNS / 8
    assert acknowledged > RUNS * 4


def test_the_plan_covers_every_call_and_kind_once() -> None:
    calls = [Call(step, name) for step in STEPS for name in ("open", "write", "fsync", "rename", "close")]
    everything = plan(calls, 1, 0)
    assert len(everything) == len(set(everything)) == sum(len(kinds(call.name)) for call in calls)
    assert plan(calls, 1, 100) == everything[:100]
    assert {fault.kind for fault in everything} == {kind for call in calls for kind in kinds(call.name)}


def test_the_table_adds_up() -> None:
    from collections import Counter

    said = table(Counter({("open", "EIO"): 2, ("open", "short"): 1, ("fsync", "EIO"): 4}))
    assert said.splitlines()[0].split() == ["EIO", "short", "all"]
    assert said.splitlines()[-1].split() == ["all", "6", "1", "7"]
