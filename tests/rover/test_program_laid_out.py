"""What an agent leaves is laid out for a program however it is meant: many links and modes, names no disk can hold."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from packages import runtime
from program_packages import container_env, graded_by

from rover.policy.scripted import ScriptedPolicy
from rover.rollout.engine import Engine
from rover.rollout.env import Env
from rover.rollout.place import place_of
from rover.rollout.records import RolloutRequest
from rover.sandbox.protocol import lacking
from rover.verify.links import MOST_LINKS, MOST_STEPS, folders_of, inside
from rover.verify.plan import Graded
from rover.verify.program import program_scores, run_program
from rover_store.records import Harness, Limits, Verdict

ONE, ZERO = "echo 1 > /logs/verifier/reward.txt", "echo 0 > /logs/verifier/reward.txt"
WIDE = Harness(tools=("shell",), limits=Limits(inodes=50_000))


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    kind = runtime()
    if lacking(("workdir",), kind):
        kind.close()
        pytest.skip("needs a sandbox in which a workspace can stand elsewhere")
    with Engine(kind) as engine:
        yield engine
    kind.close()


def after(engine: Engine, env: Env, *commands: str) -> Verdict:
    """The verdict on what some shell commands leave."""
    policy = ScriptedPolicy.of([{"tool": "shell", "arguments": {"command": c}} for c in commands])
    [(result, verdict)] = engine.run([RolloutRequest(env, policy, 1)])
    assert result.trajectory.end == "completed", result.trajectory.error
    return verdict


def test_a_start_of_thousands_of_scripts_is_made_ready_at_once(engine: Engine) -> None:
    env = graded_by(ONE, harness=WIDE, start={f"d/{'n' * 200}{n}": b"#!/bin/sh\n" for n in range(2_000)})
    begun = time.perf_counter()
    verdict = after(engine, env, f"./d/{'n' * 200}1999")
    assert verdict.outcome == "passed", verdict.reason
    assert time.perf_counter() - begun < 15


def if_then(condition: str) -> str:
    return f"if {condition}; then {ONE}; else {ZERO}; fi"


def test_an_agent_that_leaves_many_links_gets_the_verdict_of_its_work(engine: Engine) -> None:
    env = graded_by(if_then('[ "$(find /app/ -type l | wc -l)" = 5000 ]'), harness=WIDE)
    many = "import os; os.mkdir('l'); [os.symlink('../data/orders.csv', f'l/{n}') for n in range(18000)]"
    verdict = after(engine, env, f'python3 -c "{many}"')
    assert verdict.outcome == "passed", verdict.reason
    assert "13000 of 18000 links are left out: a state may have 5000" in verdict.scores[0].reason


def test_thousands_of_files_modes_and_links_take_seconds(engine: Engine) -> None:
    env = graded_by(if_then("[ -x /app/d7/f7 ] && [ -L /app/l1 ] && [ -x /app/d19/f19999 ]"), harness=WIDE)
    end = {f"d{n % 20}/f{n}": b"#!%d" % n for n in range(20_000)}
    graded = Graded(env.start, end, executable=frozenset(end), links={f"l{n}": b"d7/f7" for n in range(20_000)})
    begun = time.perf_counter()
    box = engine._boxes.box
    said = run_program(
        box, env.verifier, env.verifier_files, graded,
        place=place_of(env, engine.runtime), limits=env.harness.limits,
    )  # fmt: skip
    assert said.rewards == {"reward": 1.0}, said
    assert "15000 of 20000 links are left out" in said.reason
    assert time.perf_counter() - begun < 20


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ({"a": b"", "a/b": b""}, "'a' is a file and a folder"),
        ({"n" * 300: b""}, "not a path of a workspace"),
        ({"a/../../tests/test.sh": b""}, "not a path of a workspace"),
    ],
)
def test_a_state_that_no_disk_can_hold_is_a_failed_one(engine: Engine, end: dict[str, bytes], why: str) -> None:
    env = graded_by(ONE)
    graded = Graded(env.start, {**env.start, **end})
    where = place_of(env, engine.runtime)
    [score] = program_scores(engine._boxes.box, env.verifier, env.verifier_files, graded, place=where)
    assert (score.status, score.score) == ("scored", 0.0)
    assert f"the end state cannot be laid out: {why}" in score.reason


def test_a_link_that_no_disk_can_hold_is_left_out_and_said(engine: Engine) -> None:
    env = container_env()
    links = {"far": b"./" * 3000 + b"data", "near": b"data"}
    graded = Graded(env.start, env.start, executable=frozenset(), links=links)
    said = run_program(engine._boxes.box, env.verifier, env.verifier_files, graded, place=place_of(env, engine.runtime))
    assert not said.error
    assert "1 links or modes could not be laid out (app/far: File name too long)" in said.reason


def test_the_cost_of_links_is_bounded() -> None:
    around = b"/".join([b"d", b".."] * 1000 + [b"d"])
    chain = {f"c{n:05}": around if n % 30 == 0 else b"c%05d" % (n - 1) for n in range(20_000)}
    begun = time.perf_counter()
    found = inside(chain, ["d/f"], "/app")
    assert time.perf_counter() - begun < 10
    assert found.why == "they lead too far around" or len(found.links) == MOST_LINKS
    assert found.left + len(found.links) <= len(chain)
    assert found.left > 0
    deep = {"/".join(["d"] * 500) + f"/{n}" for n in range(20_000)}
    assert len(folders_of(deep)) == 500
    assert MOST_STEPS > MOST_LINKS * 100
