"""Verifiers that are programs: where they run, what they see, what comes of what they say and of how they end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from program_packages import CHECK, ORDERS, REPORT, TEST, container_env, graded_by, placing

from rover.policy.scripted import ScriptedPolicy
from rover.rollout.engine import Engine
from rover.rollout.env import Env
from rover.rollout.progress import TreeGrader
from rover.rollout.records import RolloutRequest
from rover.rollout.together import Together
from rover.sandbox.protocol import Runtime
from rover.verify.shown import Conditions
from rover_store.records import Harness, Limits, Verdict

ONE, ZERO = "echo 1 > /logs/verifier/reward.txt", "echo 0 > /logs/verifier/reward.txt"


@pytest.fixture(scope="module")
def box() -> Iterator[Runtime]:
    with placing() as kind:
        yield kind


@pytest.fixture(scope="module")
def engine(box: Runtime) -> Iterator[Engine]:
    with Engine(box) as engine:
        yield engine


def asked(engine: Engine, condition: str, **changes: object) -> bool:
    """Whether a shell condition holds where the program runs."""
    env = graded_by(f"if {condition}; then {ONE}; else {ZERO}; fi", **changes)
    verdict = engine.grade_state(env, env.start)
    assert verdict.outcome in ("passed", "failed"), verdict.reason
    return verdict.outcome == "passed"


def after(engine: Engine, env: Env, *commands: str) -> Verdict:
    """The verdict on what some shell commands leave."""
    policy = ScriptedPolicy.of([{"tool": "shell", "arguments": {"command": c}} for c in commands])
    [(result, verdict)] = engine.run([RolloutRequest(env, policy, 1)])
    assert result.trajectory.end == "completed", result.trajectory.error
    return verdict


def test_the_same_state_is_graded_again_where_its_place_or_its_limits_are_others(engine: Engine) -> None:
    assert asked(engine, '[ "$PWD" = /app ]')
    assert not asked(engine, '[ "$PWD" = /app ]', workdir="/srv/work")
    few, more = (Harness(tools=("shell",), limits=Limits(wall_s=20.0, open_files=n)) for n in (200, 300))
    assert asked(engine, '[ "$(ulimit -n)" = 200 ]', harness=few)
    assert not asked(engine, '[ "$(ulimit -n)" = 200 ]', harness=more)


def test_right_work_passes_and_wrong_work_does_not(engine: Engine) -> None:
    env = container_env()
    assert engine.grade_state(env, {**env.start, "report.json": REPORT}).outcome == "passed"
    verdict = engine.grade_state(env, env.start)
    assert (verdict.outcome, verdict.score) == ("failed", 0.0)
    assert "No such file or directory: '/app/report.json'" in verdict.reason


@pytest.mark.parametrize(
    "condition",
    [
        '[ "$(cd . && pwd -P)" -ef /app ]',
        "[ -f data/orders.csv ] && [ -f /app/data/orders.csv ]",
        "[ -f /tests/test.sh ] && [ -d /logs/verifier ] && [ -d /logs/agent ]",
        '[ -z "$(ls -A /logs/verifier)" ]',
        "touch /logs/verifier/x /app/y /tests/z",
        "[ ! -e /solution ] && [ ! -e /w/reference ] && [ ! -e /w/verifier ]",
        '[ "$COLOUR$SHADE" = reddark ]',
    ],
)
def test_where_it_runs_and_what_it_sees(engine: Engine, condition: str) -> None:
    assert asked(engine, condition, env={"COLOUR": "red", "SHADE": "${SHADE:-dark}"})


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("true", "wrote neither reward.json nor reward.txt; it ended with exit code 0"),
        ("exit 3", "ended with exit code 3"),
        ("kill -9 $$", "exit code 137"),
        (f"{ONE}; echo '{{\"reward\": 0}}' > /logs/verifier/reward.json", "says 0 and reward.txt says 1"),
        ("mkfifo /logs/verifier/reward.txt", "no plain file"),
        ("ln -s /etc/passwd /logs/verifier/reward.txt", "a link"),
        ("ln -s one /logs/verifier/reward.txt; echo 1 > /logs/verifier/one", "a link"),
        ("mkdir -p /logs/verifier/reward.json/x; touch /logs/verifier/reward.json/x/y", "a folder"),
        ("head -c 100000 /dev/zero > /logs/verifier/reward.txt", "too large"),
        ("echo NaN > /logs/verifier/reward.txt", "not a number"),
        ("rm -rf /logs/verifier", "wrote neither"),
        ("no-such-program-here", "exit code 127"),
        ("echo 1 > /logs/reward.txt; echo 1 > /app/reward.txt; echo 1 > reward.txt", "wrote neither"),
    ],
)
def test_what_cannot_be_believed_is_a_fault_of_the_verifier(engine: Engine, script: str, why: str) -> None:
    env = graded_by(script)
    verdict = engine.grade_state(env, env.start)
    assert verdict.outcome == "verifier_error"
    assert verdict.score is None
    assert why in verdict.reason


def test_a_limit_that_kills_it_is_a_fault_of_the_verifier(engine: Engine) -> None:
    env = graded_by(f"{ONE}; sleep 30", seconds=0.4)
    assert "broke the wall limit" in engine.grade_state(env, env.start).reason
    chatty = graded_by(f"{ONE}; yes | head -c 3000000")
    assert engine.grade_state(chatty, chatty.start).outcome == "passed", "what it prints is nobody's reward"


def test_a_failure_that_wrote_a_reward_has_said_it(engine: Engine) -> None:
    said = ((f"{ONE}; exit 1", "passed"), (f"{ZERO}; exit 1", "failed"), (f"set -e; {ONE}; false", "passed"))
    for script, outcome in said:
        env = graded_by(script)
        assert engine.grade_state(env, env.start).outcome == outcome


def test_a_variable_that_only_a_caller_could_state(engine: Engine) -> None:
    env = graded_by(ONE, env={"KEY": "${OPENAI_API_KEY}"})
    verdict = engine.grade_state(env, env.start)
    assert (verdict.outcome, "OPENAI_API_KEY" in verdict.reason) == ("verifier_error", True)


def test_one_score_a_key(engine: Engine) -> None:
    script = "echo '{\"a\": 1, \"b\": 0.5, \"c\": 0}' > /logs/verifier/reward.json"
    env = graded_by(script, keys=("a", "b"))
    verdict = engine.grade_state(env, env.start)
    assert [(s.criterion, s.score) for s in verdict.scores] == [("a", 1.0), ("b", 0.5)]
    assert (verdict.outcome, verdict.score) == ("failed", 0.75)
    env = graded_by(script, keys=("a", "other"))
    verdict = engine.grade_state(env, env.start)
    assert verdict.outcome == "verifier_error"
    assert [(s.criterion, s.status) for s in verdict.scores] == [("a", "scored"), ("other", "error")]
    assert "no reward called 'other' (it gave a, b, c)" in verdict.reason


# --- hostile end states --------------------------------------------------------------------------------------
def test_rewards_and_tests_that_an_agent_plants_count_for_nothing(engine: Engine) -> None:
    env = container_env()
    planted = dict.fromkeys(("reward.txt", "logs/verifier/reward.txt", "verifier/reward.txt"), b"1\n")
    planted |= {"tests/test.sh": ONE.encode(), "tests/check.py": b"", "check.py": b""}
    planted["logs/verifier/reward.json"] = b'{"reward": 1}'
    assert engine.grade_state(env, {**env.start, **planted}).outcome == "failed"
    reach = "mkdir -p /logs/verifier /tests; echo 1 > /logs/verifier/reward.txt; ln -s /tests/x report.json; true"
    links = "ln -s ../logs logs2; ln -s /w/logs logs; ln -s ../tests tests; true"
    assert after(engine, env, reach, links).outcome == "failed"


def test_links_modes_and_scripts_of_an_end_state(engine: Engine) -> None:
    wanted = (
        "[ -x run.sh ] && [ -x made ] && [ ! -x data.txt ] && [ -L link ] && [ $(cat link) = hello ] && [ ! -e out ]"
        " && [ ! -L far ] && [ -f 'odd \"name' ]"
    )
    start = {"run.sh": b"#!/bin/sh\necho hello > made.txt\n", "data.txt": b"x"}
    env = graded_by(f"if {wanted}; then {ONE}; else ls -la >&2; {ZERO}; fi", start=start)
    commands = (
        "./run.sh; cp run.sh made; ln -s /app/made.txt link",
        "ln -s ../tests out; ln -s /etc far; touch 'odd \"name'; mkfifo pipe",
    )
    verdict = after(engine, env, *commands)
    assert verdict.outcome == "passed", verdict.reason


def test_a_start_script_is_no_change(engine: Engine) -> None:
    env = container_env(start={"run.sh": b"#!/bin/sh\n", "a.txt": b"a"})
    policy = ScriptedPolicy.of([{"tool": "shell", "arguments": {"command": "true"}}])
    [(result, _)] = engine.run([RolloutRequest(env, policy, 1)])
    assert result.trajectory.end_tree == result.trajectory.start == env.start_tree
    assert [c.writes for t in result.trajectory.turns for c in t.calls] == [()]


def test_everything_may_be_gone(engine: Engine) -> None:
    env = graded_by(f'[ -d /app ] && [ -z "$(ls -A /app)" ] && {ONE}')
    assert after(engine, env, "rm -rf ./* ./.[!.]*; true").outcome == "passed"


# --- one and the same ----------------------------------------------------------------------------------------
def test_equal_states_get_one_run_unless_asked_afresh(engine: Engine) -> None:
    env = graded_by(f"if [ $(date +%N | tail -c 2) -ge 0 ]; then {ONE}; fi; date +%s%N > /logs/verifier/when")
    first = engine.grade_state(env, env.start)
    assert engine.grade_state(env, env.start) == first
    assert engine.grade_state(env, env.start, fresh=True).scores == first.scores


def test_a_seed_moves_what_python_hashes_by(engine: Engine) -> None:
    env = graded_by("python3 -c 'print(hash(\"a\") % 997 / 1000)' > /logs/verifier/reward.txt")
    scores = {engine.grade_state(env, env.start, now=Conditions(seed=s)).scores[0].score for s in (0, 1, 2)}
    assert len(scores) == 3


def test_progress_is_asked_only_where_somebody_wants_it(box: Runtime) -> None:
    script = f"if [ -f /app/done ]; then {ONE}; else {ZERO}; fi"
    plan = [{"tool": "shell", "arguments": {"command": c}} for c in ("touch x", "touch done", "rm done")]
    for progress, column in ((False, [None] * 5), (True, [0.0, 0.0, 1.0, 0.0, 0.0])):
        env = graded_by(script, progress=progress)
        with Together(box) as together, TreeGrader(box) as grader:
            [done] = together.play([RolloutRequest(env, ScriptedPolicy.of(plan), 1)])
            [graded] = grader.grade([(env, done)])
        assert graded.verdict.outcome == "failed"
        assert [row[0] for row in graded.statuses] == column


def test_verdicts_hold_no_time_and_no_place(engine: Engine) -> None:
    script = f"{TEST.decode()}\necho 'FAILED a in 0.12s at 0x7fffdeadbeef' "
    env = container_env(tests={"test.sh": script.encode(), "check.py": CHECK}, start={"data/orders.csv": ORDERS})
    first = engine.grade_state(env, env.start, fresh=True)
    assert first == engine.grade_state(env, env.start, fresh=True)
    assert "0.12" not in first.reason
