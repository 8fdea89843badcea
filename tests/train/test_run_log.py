"""The log of a run, what the live table makes of it, and trackers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from rover_store.errors import UsageError
from rover_train.config import load
from rover_train.train.log import RunLog, read
from rover_train.train.trackers import numbers, trackers
from rover_train.train.watch import Watch, duration, line


def rows(*steps: int) -> list[dict[str, Any]]:
    time = {"seconds": 2.0, "tokens_s": 10.0}
    return [{"kind": "train", "step": step, "loss": 1 / step, "of": 4, "time": time} for step in steps]


def test_a_resumed_log_is_cut_to_the_step(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = RunLog(path)
    for row in rows(1, 2, 3):
        log.write(row)
    log.close()
    with open(path, "ab") as file:
        file.write(b'{"kind": "train", "st')  # a process was killed here
    for keep_to, left in ((3, [1, 2, 3]), (2, [1, 2]), (-1, [])):
        RunLog(path, keep_to=keep_to).close()
        assert [row["step"] for row in read(path)] == left


def test_lines_behind_a_damaged_one_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    good = [json.dumps(row).encode() for row in rows(1, 2, 3)]
    path.write_bytes(b"\n".join([good[0], good[1][:9], good[2], b""]))
    RunLog(path, keep_to=3).close()
    assert [row["step"] for row in read(path)] == [1]


def test_what_is_no_number_is_null(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "log.jsonl")
    log.write({"kind": "train", "step": 1, "kl": math.inf, "by": {"x": math.nan}, "of": [math.nan, 1.5]})
    log.close()
    expected = {"kind": "train", "step": 1, "kl": None, "by": {"x": None}, "of": [None, 1.5]}
    assert read(tmp_path / "log.jsonl") == [expected]


def test_listeners_get_every_row(tmp_path: Path) -> None:
    heard: list[Any] = []
    log = RunLog(tmp_path / "log.jsonl", told=[heard.append])
    log.write(rows(1)[0])
    log.close()
    assert heard == rows(1)


def test_figures_of_fine_tuning() -> None:
    watch = Watch()
    for row in rows(1, 2):
        watch(row)
    watch({"kind": "eval", "step": 2, "loss": 0.5, "success": 0.25, "best": True, "time": {"seconds": 9.0}})
    shown = dict(watch.figures())
    assert shown["step"] == "2/4"
    assert shown["loss"] == "0.5000"
    assert shown["time left"] == "4 s"  # two steps of two seconds
    assert shown["validation success"] == "25.0% (best 25.0% at step 2)"
    assert shown["tokens a second"] == "10"


def test_figures_of_rl_tell_errors_apart() -> None:
    row = {
        "kind": "train", "step": 1, "reward": 0.5, "advantage": 0.01, "advantage_spread": 1.25, "tied_groups": 0.25,
        "kl": 0.00012, "clip_share": 0.031, "entropy": 1.5, "turns": 7.5, "tokens": 120.0, "infra_errors": 1,
        "verifier_errors": 0, "policy_errors": 3, "time": {"step": 60.0, "tokens_s": 900.0},
    }  # fmt: skip
    watch = Watch(total=41)
    watch(row)
    shown = dict(watch.figures())
    assert (shown["reward"], shown["advantage"], shown["its spread"]) == ("0.500", "+0.010", "1.250")
    assert (shown["tied groups"], shown["KL"], shown["clipped"]) == ("25%", "0.00012", "3.10%")
    assert (shown["infra errors"], shown["verifier errors"], shown["policy errors"]) == ("1", "0", "3")
    assert shown["time left"] == "40 min"
    watch({"kind": "warning", "step": 1, "text": "all groups are tied"})
    assert dict(watch.figures())["warning"] == "step 1: all groups are tied"
    assert line(row, watch).startswith("step 1/41: reward 0.500, advantage +0.010, its spread 1.250, tied groups 25%")


def test_durations() -> None:
    assert [duration(s) for s in (4, 89, 90, 3600, 7500)] == ["4 s", "89 s", "2 min", "60 min", "2 h 05 min"]


def test_numbers_of_a_row_have_paths() -> None:
    row = {"kind": "train", "step": 3, "loss": 1, "best": True, "outcomes": {"passed": 2}, "time": {"step": 1.5}}
    assert dict(numbers(row)) == {"loss": 1.0, "outcomes/passed": 2.0, "time/step": 1.5}


def test_a_tracker_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "trackio", None)
    with pytest.raises(UsageError, match="names trackio, which is not installed") as found:
        trackers(load(None, ['log.trackers=["trackio"]']), tmp_path)
    assert found.value.hint == "pip install trackio"


def test_tensorboard_gets_the_numbers(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("tensorboard")
    (told,) = trackers(load(None, ['log.trackers=["tensorboard"]']), tmp_path)
    for row in rows(1, 2):
        told(row)
    (events,) = (tmp_path / "tensorboard").iterdir()
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    found = [(e.step, v.tag) for e in EventFileLoader(str(events)).Load() for v in e.summary.value]
    assert (2, "train/loss") in found
    assert (1, "train/time/tokens_s") in found
