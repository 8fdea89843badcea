"""Stages of a comparison: run once, taken up again, ended together; and which commands a plan comes to."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rover_store.errors import UsageError
from rover_train.bench.plan import ARMS, FULL, LEAST_HELD_OUT, QUICK, THREE, Plan, chosen
from rover_train.bench.stages import Stages
from rover_train.bench.work import Stage, StageFailed, Work

PLAN = Plan(("dense", "sparse"), THREE, (1, 2), QUICK, seed=3)


def test_a_stage_runs_once_and_again_when_its_command_changes(tmp_path: Path) -> None:
    told: list[str] = []
    work = Work(tmp_path, told.append)
    first, second = Stage("init", ["init", str(tmp_path / "store")]), Stage("init", ["init", str(tmp_path / "other")])
    for stage in (first, first, second, second):
        work.one(stage)
    assert told == ["init", "init"]
    assert (tmp_path / "store/.rover").is_dir()
    assert (tmp_path / "other/.rover").is_dir()
    assert not work.done(first)
    assert work.done(second)


def test_a_stage_runs_again_when_what_it_rests_on_changes(tmp_path: Path) -> None:
    work = Work(tmp_path)
    old = Stage("b", ["help", "glossary"], rests_on=(Stage("a", ["help"]),))
    work.one(old)
    assert work.done(old)
    assert not work.done(Stage("b", ["help", "glossary"], rests_on=(Stage("a", ["help", "policies"]),)))
    small, large = (Stages(tmp_path, Plan(("dense",), THREE, (1,), scale)) for scale in (QUICK, FULL))
    for one, two in zip(small.prepared(2)[1], large.prepared(2)[1], strict=True):
        assert one.identity != two.identity
    for one, two in zip(large.prepared(2)[1], large.prepared(8)[1], strict=True):
        assert one.identity == two.identity


def test_what_an_ended_stage_left_is_cleared_or_gone_on_from(tmp_path: Path) -> None:
    left = tmp_path / "left"
    left.mkdir()
    (left / "config.toml").touch()
    work = Work(tmp_path)
    fresh = Stage("a", ["help", "glossary"], clears=(left,))
    work.one(fresh)
    assert not left.exists()
    going = Stage("b", ["train", "--out", str(left)], resumes=left)
    assert work._prepared(going) == going.command
    left.mkdir()
    (left / "config.toml").touch()
    assert work._prepared(going) == [*going.command, "--resume"]
    other = Stage("b", ["train", "--out", str(left), "--seed", "2"], resumes=left)
    assert work._prepared(other) == other.command
    assert not left.exists()


def test_a_failure_is_told_in_one_line_and_ends_the_others(tmp_path: Path) -> None:
    work = Work(tmp_path)
    bad = [Stage("bad", ["list", "--store", str(tmp_path / "none")])]
    slow = [Stage(f"slow-{n}", ["help", "glossary"]) for n in range(40)]
    began = time.monotonic()
    with pytest.raises(StageFailed, match="bad: ") as caught:
        work.all([bad, *([s] for s in slow)], 2, lambda done, total: None)
    assert "\n" not in caught.value.message
    assert str(tmp_path / "logs/bad.log") in caught.value.hint
    assert not all(work.done(s) for s in slow)
    assert time.monotonic() - began < 60


def test_the_stages_of_a_plan_name_one_revision_and_one_split() -> None:
    stages = Stages(Path("/w"), PLAN)
    names = [[s.name for s in chain] for chain in stages.prepared(2)]
    assert names == [["base"], ["files", "init", "build-dense", "build-sparse", "collect"]]
    assert "data.split=/w/splits/all.json" in stages.sft("c" * 40).command
    run = stages.run("c" * 40, "sparse", "vtca-even", 2)
    assert run.name == "runs/sparse/vtca-even-2"
    assert {"vtca-even", "c" * 40, "/w/sft", "data.split=/w/splits/sparse.json"} <= set(run.command)
    kinds = [s.name.rsplit("-", 1)[1] for s in stages.measured("c" * 40, "sparse", "grpo", 1)]
    assert kinds == ["greedy", "sampled"]
    assert [s.name.rsplit("-", 1)[1] for s in stages.base("c" * 40)] == ["greedy", "sampled", "validation"] * 2


def test_arms_differ_in_credit_alone() -> None:
    stages = Stages(Path("/w"), PLAN)
    commands = {arm: stages.run("c" * 40, "dense", arm, 1).command for arm in ARMS}
    plain = [word for word in commands["grpo"] if word not in ("grpo", "/w/runs/dense/grpo-1")]
    for arm, command in commands.items():
        rest = [w for w in command if w not in (ARMS[arm].method, f"/w/runs/dense/{arm}-1")]
        assert rest == [*plain, *(w for text in ARMS[arm].sets for w in ("--set", text))]
        assert all(text.startswith("credit.") for text in ARMS[arm].sets)


def test_runs_go_seed_by_seed() -> None:
    assert PLAN.runs()[:4] == [("dense", a, 1) for a in THREE] + [("sparse", "grpo", 1)]
    assert [seed for _, _, seed in PLAN.runs()] == [1] * 6 + [2] * 6


def test_a_full_comparison_holds_out_enough() -> None:
    assert FULL.workspaces * FULL.count * FULL.shares[2] >= LEAST_HELD_OUT
    assert FULL.seeds == 5


def test_names_are_checked() -> None:
    assert chosen(["vtca-even,grpo"], tuple(ARMS), "arm") == ("grpo", "vtca-even")
    with pytest.raises(UsageError, match="no arm is called 'ppo'"):
        chosen(["ppo"], tuple(ARMS), "arm")
