"""Whole runs of RL on a tiny model, with real boxes, real grading and a real store."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("torch")

import tiny_rl

from rover.policy.protocol import Action, PolicyView, Session
from rover.rollout.records import RolloutRequest
from rover_store.errors import ProviderError, UsageError
from rover_store.records import Call
from rover_store.store import Store
from rover_train import models
from rover_train.evaluate import evaluate_model, evaluate_policy
from rover_train.evaluation import EvalRow, Evaluation
from rover_train.rl.arena import Arena
from rover_train.rl.groups import collect
from rover_train.rl.players import OwnPlayer
from rover_train.train import checkpoint
from rover_train.train.errors import NotFinite
from rover_train.train.log import read


class World(NamedTuple):
    store: Store
    commit: str
    raw: Path
    good: Path


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    made, commit = tiny_rl.store(folder / "store")
    raw = tiny_rl.model_folder(folder / "raw")
    return World(made, commit, raw, tiny_rl.taught(folder / "good", made, commit, raw))


@pytest.fixture
def arena(world: World) -> Iterator[Arena]:
    boxes = tiny_rl.runtime()
    with Arena(world.store, boxes, world.commit) as made:
        yield made
    boxes.close()


def newest(run: Path) -> Path:
    found = checkpoint.latest(run)
    assert found is not None
    return found


def files(folder: Path) -> Any:
    return json.loads((folder / "state.json").read_bytes())["files"]


def test_two_runs_of_one_config_give_the_same_weights(world: World, tmp_path: Path):
    settings = tiny_rl.config(world.commit, rl={"keep": "none"})
    states = [tiny_rl.train(tmp_path / name, world.store, settings, world.raw) for name in ("a", "b")]
    first, second = (newest(tmp_path / name) for name in ("a", "b"))
    assert files(first) == files(second)
    assert states[0] == states[1]
    assert states[0].finished
    trained, raw = (models.load(str(f)).model for f in (first, world.raw))
    assert models.weights_id(trained) != models.weights_id(raw)
    other = tiny_rl.config(world.commit, rl={"keep": "none"}, seed=4)
    tiny_rl.train(tmp_path / "c", world.store, other, world.raw)
    assert files(newest(tmp_path / "c")) != files(first)


def test_a_run_killed_three_times_ends_as_an_unbroken_one(tmp_path: Path):
    drill = [sys.executable, str(Path(tiny_rl.__file__)), str(tmp_path)]
    done = subprocess.run(drill, capture_output=True, text=True, env={"OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["ended"] == [False, False, False, True]
    assert said["same"]
    assert said["steps"][-1] == "step-000003"


def test_the_log_says_what_a_step_did(world: World, tmp_path: Path):
    settings = tiny_rl.config(
        world.commit, rl={"steps": 1, "max_turn_tokens": tiny_rl.TURN, "keep": "all"}, loss={"kl": 0.1}
    )
    state = tiny_rl.train(tmp_path / "run", world.store, settings, world.good)
    before, step, after = read(tmp_path / "run/log.jsonl")
    assert (before["kind"], step["kind"], after["kind"]) == ("eval", "train", "eval")
    assert before["success"] == 1.0
    assert step["rollouts"] == sum(step["outcomes"].values()) == 4
    assert step["trained_tokens"] == step["sampled_tokens"] > 0
    told = {"reward", "advantage_spread", "tied_groups", "credit_turns", "kl", "clip_share", "entropy", "kl_reference"}
    assert told <= set(step)
    times = step["time"]
    parts = sum(v for k, v in times.items() if k not in ("step", "tokens_s", "sampled_s"))
    assert parts == pytest.approx(times["step"], abs=0.01)
    assert times["credit"] < 0.25 * times["step"]
    assert len(state.evidence) == 4
    trajectories = [world.store.evidence.get_rollout(rollout) for rollout in state.evidence]
    assert all(t is not None and t.package == "copy-shop" for t in trajectories)
    (sample,) = json.loads((tmp_path / "run/samples/step-000001.json").read_text())
    assert len(sample["turns"]) >= 1
    assert sample["rollout"] in state.evidence


def test_adapters_train_and_the_checkpoint_is_a_model(world: World, tmp_path: Path):
    settings = tiny_rl.config(
        world.commit, model={"lora": {"rank": 4}, "dtype": "bfloat16"}, rl={"steps": 1, "top_p": 0.9},
        loss={"kl": 0.1, "kind": "cispo"},
    )  # fmt: skip
    tiny_rl.train(tmp_path / "run", world.store, settings, world.raw)
    (step,) = (row for row in read(tmp_path / "run/log.jsonl") if row["kind"] == "train")
    assert step["updates"] == 2
    assert step["importance"] == pytest.approx(1.0, abs=0.1)  # in bf16 the trainer computes its own log-probabilities
    again = models.load(str(newest(tmp_path / "run")))
    assert models.weights_id(again.model) != models.weights_id(models.load(str(world.raw)).model)


def test_a_window_too_small_for_any_turn_is_told(world: World, tmp_path: Path):
    settings = tiny_rl.config(world.commit, rl={"steps": 1, "retries": 0}, render={"window": 64}, eval={"every": 0})
    tiny_rl.train(tmp_path / "run", world.store, settings, world.raw)
    (told,) = (row for row in read(tmp_path / "run/log.jsonl") if row["kind"] == "warning")
    assert told["what"] == "policy errors"
    assert "every rollout ended in a policy error" in told["text"]
    assert "window" in told["text"]


def test_tied_groups_change_nothing_and_are_told(world: World, tmp_path: Path):
    """Turns of one token are no calls that any tool takes: every reward is the same, and GRPO has no advantage."""
    rl = {"steps": 2, "max_turn_tokens": 1, "tied_warning": 2, "retries": 0}
    settings = tiny_rl.config(world.commit, method="grpo", rl=rl, eval={"every": 0}, credit={"lambda": 0.0})
    tiny_rl.train(tmp_path / "run", world.store, settings, world.raw)
    rows = read(tmp_path / "run/log.jsonl")
    steps = [row for row in rows if row["kind"] == "train"]
    assert [row["tied_groups"] for row in steps] == [1.0, 1.0]
    assert [row["updates"] for row in steps] == [0, 0]
    assert [row["step"] for row in rows if row.get("what") == "tied groups"] == [2]
    first, last = (models.load(str(f)).model for f in (world.raw, newest(tmp_path / "run")))
    assert models.weights_id(first) == models.weights_id(last)


def test_a_group_of_one_is_refused_before_anything_runs(world: World, tmp_path: Path):
    settings = tiny_rl.config(world.commit, rl={"group": 1})
    with pytest.raises(UsageError, match=r"rl\.group is 1: a group of one has nothing to be compared with"):
        tiny_rl.train(tmp_path / "run", world.store, settings, world.raw)
    assert not (tmp_path / "run/checkpoints").exists()


class Server:
    """A policy whose server dies in some of its rollouts, by the parity of their seeds."""

    attacker = False

    def __init__(self, dies: int) -> None:
        self.id = f"server:{dies}"
        self.dies = dies

    def start(self, view: PolicyView, seed: int) -> Session:
        return Answering(seed % 4 < self.dies)

    def acting(self, pending: list[tuple[int, Any]]) -> dict[int, Any]:
        return {}


class Answering:
    def __init__(self, dies: bool) -> None:
        self.dies = dies

    def act(self, results: tuple[Call, ...], *, deadline_s: float) -> Action:
        if self.dies:
            raise ProviderError("the server closed the connection")
        return Action(message="done")

    def close(self) -> None:
        pass


def test_spoilt_rollouts_are_tried_again_and_never_rewarded(arena: Arena):
    policy = Server(dies=1)
    found = collect(arena, policy, policy, ["copy-shop", "copy-yard"], group=4, retries=6, seed=1, step=0)
    assert found.outcomes["infra_error"] > 0
    assert [len(group.entries) for group in found.groups] == [4, 4]
    assert all(entry.counts for entry in found.entries)
    seeds = {entry.request.seed for entry in found.entries}
    assert len(seeds) == 8


def test_a_group_that_cannot_be_filled_leaves_the_batch(arena: Arena):
    policy = Server(dies=2)
    names = ["copy-shop", "copy-yard"]
    step = next(
        n for n in range(50) if len(_complete(arena, policy, names, n)) == 1
    )  # a step in which one package's seeds all live
    found = collect(arena, policy, policy, names, group=2, retries=0, seed=1, step=step)
    assert len(found.groups) == len(found.dropped) == 1
    assert found.groups[0].env.package not in found.dropped


def _complete(arena: Arena, policy: Server, names: list[str], step: int) -> list[str]:
    from rover_train.rl.schedule import rollout_seed

    return [n for n in names if all(rollout_seed(1, step, n, k, 0) % 4 >= policy.dies for k in range(2))]


def test_a_dead_server_ends_the_run_with_its_last_words(arena: Arena):
    policy = Server(dies=4)
    with pytest.raises(ProviderError, match=r"no group of step 1 could be filled; .*closed the connection"):
        collect(arena, policy, policy, ["copy-shop"], group=2, retries=1, seed=1, step=0)


# --- evaluation ----------------------------------------------------------------------------------------------
def test_an_evaluation_plays_once_and_then_reads_the_evidence(world: World, arena: Arena):
    loaded = models.load(str(world.good))
    renderer = loaded.renderer(tiny_rl.config(world.commit).render, turn_tokens=tiny_rl.TURN)
    player = OwnPlayer(loaded, renderer, temperature=0.5, max_turn_tokens=tiny_rl.TURN)
    names = ["copy-shop", "copy-yard"]
    told: list[tuple[EvalRow, int, int]] = []

    def ask() -> tuple[EvalRow, ...]:
        return evaluate_model(arena, names, *player.ready(0), attempts=3, seed=9, told=lambda *row: told.append(row))

    first, second = ask(), ask()
    assert [row.reused for row in first] == [False] * 6
    assert [row.reused for row in second] == [True] * 6
    same = {"reused", "seconds"}
    assert [r.model_dump(exclude=same) for r in first] == [r.model_dump(exclude=same) for r in second]
    assert [(r.package, r.attempt) for r in first] == [(n, k) for n in names for k in range(3)]
    assert [done for _, done, _ in told] == [*range(1, 7)] * 2
    assert any(row.passed for row in first)
    assert {row.workspace for row in first} == {"shop", "yard"}


def test_any_policy_is_evaluated_with_the_same_seeds(world: World, arena: Arena):
    boxes = tiny_rl.runtime()
    names = ["copy-shop", "copy-yard"]
    rows = evaluate_policy(world.store, boxes, world.commit, names, "null:nothing", attempts=2, seed=9, workers=1)
    boxes.close()
    assert [row.outcome for row in rows] == ["failed"] * 4
    env = arena.env("copy-shop")
    from rover_train.evaluate import eval_seed

    assert [row.seed for row in rows[:2]] == [eval_seed(9, "copy-shop", k) for k in range(2)]
    assert RolloutRequest(env, tiny_rl.solution(), rows[0].seed).seed == rows[0].seed
    found = Evaluation(revision=world.commit, policy="null:nothing", rows=rows).summary()
    assert found["success"]["value"] == 0.0
    assert found["workspaces"] == 2


# --- distillation --------------------------------------------------------------------------------------------
def test_a_student_is_drawn_to_its_teacher(world: World, tmp_path: Path):
    rl = {"steps": 4, "group": 2, "max_turn_tokens": tiny_rl.TURN, "teacher": str(world.good), "epochs": 2}
    optim = {"name": "muon", "lr": 3e-3}
    ends = {"eval": {"every": 0}, "checkpoint": {"every": 0}}
    tiny_rl.train(
        tmp_path / "run", world.store, tiny_rl.config(world.commit, method="opd", rl=rl, optim=optim, **ends), world.raw
    )
    gaps = [row["kl_teacher"] for row in read(tmp_path / "run/log.jsonl") if row["kind"] == "train"]
    assert 0 < gaps[-1] < gaps[0] - 0.05


def test_a_teacher_of_another_tokenizer_is_refused(world: World, tmp_path: Path):
    from rover_train.rl.opd import teacher_of

    other = tiny_rl.model_folder(tmp_path / "other", text="entirely different words " * 9)
    settings = tiny_rl.config(world.commit, method="opd", rl={"teacher": str(other)})
    with pytest.raises(UsageError, match=r"teacher .*other': its vocabulary is not the student's"):
        teacher_of(settings, models.load(str(world.raw)))


# --- a server samples ----------------------------------------------------------------------------------------
def test_a_server_samples_with_the_adapter_of_each_step(world: World, tmp_path: Path):
    from completions_server import CompletionsServer

    from rover_train.train.settings import LoraSettings

    lora = LoraSettings(rank=2, dropout=0.0)
    served = models.load(str(world.good), lora=lora)
    with CompletionsServer(served.model, "base") as server:
        settings = tiny_rl.config(
            world.commit,
            model={"lora": lora.model_dump(), "dtype": "float32"},
            rl={"server": server.url, "server_model": "base", "max_turn_tokens": 8, "steps": 2, "group": 2},
            eval={"every": 0}, render={"window": 120},
        )  # fmt: skip
        tiny_rl.train(tmp_path / "run", world.store, settings, world.good)
        asked = [request["model"] for request in server.requests if "model" in request]
    assert len(set(asked)) == 2
    assert "base" not in asked
    assert not (tmp_path / "run/adapters").exists()
    steps = [row for row in read(tmp_path / "run/log.jsonl") if row["kind"] == "train"]
    assert all(row["sampler_gap"] < 1e-4 for row in steps)
    assert all(row["importance"] == pytest.approx(1.0, abs=1e-4) for row in steps)


def test_a_server_without_adapters_is_refused(world: World, tmp_path: Path):
    settings = tiny_rl.config(world.commit, rl={"server": "http://127.0.0.1:9", "server_model": "base"})
    with pytest.raises(UsageError, match=r"model\.lora is absent"):
        tiny_rl.train(tmp_path / "run", world.store, settings, world.raw)


# --- ends ----------------------------------------------------------------------------------------------------
def test_weights_that_break_end_the_run_at_its_last_good_checkpoint(world: World, tmp_path: Path):
    rl = {"steps": 3, "max_turn_tokens": 4, "group": 2}
    settings = tiny_rl.config(world.commit, optim={"lr": 1e30, "clip": 0.0}, rl=rl, eval={"every": 0})
    with pytest.raises(NotFinite, match="batch of copy-shop"):
        tiny_rl.train(tmp_path / "run", world.store, settings, world.raw)
    state = checkpoint.check(newest(tmp_path / "run"), revision=world.commit)
    assert not state.finished
    assert models.load(str(newest(tmp_path / "run")))


def test_patience_ends_a_run_that_gets_no_better(world: World, tmp_path: Path):
    rl = {"steps": 9, "max_turn_tokens": 4, "group": 2}
    settings = tiny_rl.config(world.commit, rl=rl, eval={"every": 1, "patience": 2})
    state = tiny_rl.train(tmp_path / "run", world.store, settings, world.raw)
    assert (state.step, state.finished, state.best.step) == (2, True, 2)  # of equal ones the latest
    assert [row["what"] for row in read(tmp_path / "run/log.jsonl") if row["kind"] == "warning"][-1] == "early stop"
