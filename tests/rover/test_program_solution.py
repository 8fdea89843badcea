"""The solution of a container task: run as a policy, shown to nobody else, and the reference of calibration."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from program_packages import CHECK, ORDERS, REPORT, SOLVE, TEST, container_env, container_package, graded_by, placing

from rover.cli.main import run as cli
from rover.construct.calibrate import calibrate
from rover.construct.references import problems
from rover.construct.solved import broken_states, demanded, solution_of, solved
from rover.policy.named import named_paths
from rover.policy.null import NULL_POLICIES, attackers
from rover.policy.scripted import ScriptedPolicy
from rover.policy.solution import FOLDER, SETTINGS, SolutionPolicy, variables_of
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files
from rover.rollout.records import EndState, RolloutRequest, changed
from rover.sandbox.protocol import Runtime
from rover.sandbox.registry import make_runtime
from rover_store.errors import UsageError
from rover_store.records import Harness
from rover_store.store import Store

REWARD = "/logs/verifier/reward.txt"


@pytest.fixture(scope="module")
def box() -> Iterator[Runtime]:
    with placing() as kind:
        yield kind


@pytest.fixture(scope="module")
def engine(box: Runtime) -> Iterator[Engine]:
    with Engine(box) as engine:
        yield engine


def policy(env: Env, slip: str = "") -> SolutionPolicy:
    found = solution_of(env, slip)
    assert found is not None
    return found


# --- the policy ----------------------------------------------------------------------------------------------
def test_a_solution_runs_as_one_turn_and_leaves_nothing_of_itself(engine: Engine) -> None:
    env = container_env()
    [(result, verdict)] = engine.run([RolloutRequest(env, policy(env), 1)])
    assert verdict.outcome == "passed"
    assert dict(result.end) == {"data/orders.csv": ORDERS, "report.json": REPORT}
    [call] = result.trajectory.turns[0].calls
    assert (call.tool, call.arguments, call.status) == ("shell", {"command": "bash /solution/solve.sh"}, "ok")
    assert [a.path for a in call.writes] == ["report.json"]


def test_its_files_are_whole_and_may_be_run(engine: Engine) -> None:
    odd = bytes(range(256)) * 40
    solve = (
        b"set -e\n/solution/lib/run 'x'\ncmp /solution/lib/odd.bin /app/odd.bin\n[ \"$GREETING\" = hi ]\n"
        b"cp /solution/lib/odd.bin /app/copy.bin\nls -A /app > /app/seen.txt\n"
    )
    files = {"solve.sh": solve, "lib/run": b"#!/bin/sh\necho $1 > ran.txt\n", "lib/odd.bin": odd}
    env = container_env(start={"odd.bin": odd}, solution=files)
    env = env_from_files({**env.files, SETTINGS: b'{"env": {"GREETING": "hi"}}'}, {})
    [(result, _)] = engine.run([RolloutRequest(env, policy(env), 1)])
    assert result.trajectory.turns[0].calls[0].status == "ok", result.trajectory.turns[0].calls[0].output
    assert (result.end["copy.bin"], result.end["ran.txt"]) == (odd, b"x\n")
    assert sorted(result.end) == ["copy.bin", "odd.bin", "ran.txt", "seen.txt"]


@pytest.mark.parametrize("path", [FOLDER, f"{FOLDER}/notes.txt"])
def test_a_workspace_that_has_something_in_its_place_keeps_it(engine: Engine, path: str) -> None:
    env = container_env(start={"data/orders.csv": ORDERS, path: b"mine\n"})
    [(result, verdict)] = engine.run([RolloutRequest(env, policy(env), 1)])
    assert (verdict.outcome, result.trajectory.end, result.end[path]) == ("policy_error", "policy_error", b"mine\n")
    assert f"the workspace has a {FOLDER}" in result.trajectory.error


def test_nobody_else_is_shown_it(engine: Engine) -> None:
    env = container_env()
    look = f"ls /solution {FOLDER}; find / -name solve.sh 2>/dev/null; true"
    curious = ScriptedPolicy.of([{"tool": "shell", "arguments": {"command": look}}])
    [(result, _)] = engine.run([RolloutRequest(env, curious, 1)])
    said = json.loads(result.trajectory.turns[0].calls[0].output)
    assert said["stdout"] == ""


def test_its_id_is_its_content() -> None:
    one, other = container_env(), container_env(solution={"solve.sh": SOLVE + b"\n"})
    assert policy(one).id == policy(container_env()).id != policy(other).id
    assert policy(one, "forget").id == f"{policy(one).id}:forget"
    assert SolutionPolicy({"solve.sh": SOLVE}, {"A": "1"}).id != policy(one).id


def test_a_slip_spoils_what_the_request_names(engine: Engine) -> None:
    env = container_env(solution={"solve.sh": SOLVE + b"\necho note > /app/aside.txt\n"})
    for slip, left in (("forget", None), ("empty", b"")):
        [(result, verdict)] = engine.run([RolloutRequest(env, policy(env, slip), 5)])
        assert (verdict.outcome, result.end.get("report.json")) == ("failed", left)
        assert result.end["aside.txt"] == b"note\n"


def test_bad_solutions_are_named(engine: Engine) -> None:
    assert solution_of(container_env(solution={"other.sh": b""})) is None
    with pytest.raises(UsageError, match="no slip called 'sleep'"):
        SolutionPolicy({"solve.sh": b""}, slip="sleep")
    with pytest.raises(UsageError, match="32 MB"):
        SolutionPolicy({"solve.sh": b"", "big": bytes(33 << 20)})
    env = container_env(harness=Harness(tools=("read_file",)))
    [(result, verdict)] = engine.run([RolloutRequest(env, policy(env), 1)])
    assert (verdict.outcome, "no shell" in result.trajectory.error) == ("policy_error", True)
    for damaged in (b"[" * 99999, b"[]", b"{", b'{"env": 3}'):
        assert variables_of({SETTINGS: damaged}) == {}


def test_files_that_a_request_names() -> None:
    text = (
        "Read `/app/data/orders.csv`, run ./tools/run.sh, see README.md and write /app/out/report.json. "
        "Version 3.11, https://example.com/x.csv, /etc/passwd, /app, `amount`, 'sum.txt'; not ../up.txt."
    )
    assert named_paths(text, "/app") == ("data/orders.csv", "tools/run.sh", "README.md", "out/report.json", "sum.txt")
    assert "/app/x.csv"[5:] in named_paths("to /app/x.csv", "/app/")
    assert named_paths("to /app/x.csv", "") == ()
    env = container_env()
    assert env.targets() == ("report.json",), "what is asked for and not there"
    end = {**env.start, "report.json": REPORT, "__pycache__/a.pyc": b"", "log.txt": b""}
    assert demanded(env, end) == ("report.json",)


# --- calibration ---------------------------------------------------------------------------------------------
def test_a_sound_package_is_right_on_every_case(engine: Engine) -> None:
    found = calibrate(engine, container_env())
    assert found.ok, found.wrong
    assert {r.kind for r in found.rows} == {"start", "reference", "negative", "attacker"}
    cases = {r.case for r in found.rows}
    assert cases >= {"delete-report.json", "empty-report.json", "null:tamper_reward", "null:link_tests"}
    assert attackers(False) == NULL_POLICIES


@pytest.mark.parametrize(
    ("script", "wrong"),
    [
        ("echo 1 > /logs/verifier/reward.txt", "start"),
        (f"[ -f /app/report.json ] && echo 1 > {REWARD} || echo 0 > {REWARD}", "empty-report.json"),
        ("[ -f /app/data/orders.csv ] && exit 0; echo 0 > /logs/verifier/reward.txt", "solution"),
        ("echo 0 > /logs/verifier/reward.txt", "solution"),
        ("echo 0.$(date +%N | tail -c 7 | head -c 6) > /logs/verifier/reward.txt", "start-again"),
        (f"cp /app/logs/verifier/reward.txt {REWARD} 2>/dev/null || echo 0 > {REWARD}", "null:tamper_reward"),
        ("echo 0 > /logs/verifier/reward.txt; cd /app; PYTHONPATH=. python3 -c 'import check'", "null:tamper_reward"),
    ],
)
def test_each_way_to_be_wrong_is_found(engine: Engine, script: str, wrong: str) -> None:
    found = calibrate(engine, graded_by(script, seconds=5.0))
    assert not found.ok
    assert wrong in {r.case for r in found.wrong}, [r.case for r in found.wrong]


def test_a_solution_that_fails_is_no_reference(engine: Engine) -> None:
    env = container_env(solution={"solve.sh": SOLVE + b"\nexit 3\n"})
    row = next(r for r in calibrate(engine, env).wrong if r.case == "solution")
    assert (row.observed, "solve.sh fails" in row.reason) == ("error", True)
    none = container_env(solution={})
    assert not calibrate(engine, none).ok
    assert [p[0] for p in problems(none)] == ["demonstrations/solution/solve.sh"]


def test_rewards_that_are_only_told_decide_nothing(engine: Engine) -> None:
    said = "printf '{\"reward\": %s, \"style\": 0.4}' $R > /logs/verifier/reward.json"
    test = f"python3 /tests/check.py && R=1 || R=0\n{said}\n"
    env = container_env(tests={"test.sh": test.encode(), "check.py": CHECK}, keys=("reward", "style"))
    criteria = tuple(c.model_copy(update={"weight": float(c.id == "reward")}) for c in env.verifier.criteria)
    files = {**env.files, "verifier/verifier.json": env.verifier.model_copy(update={"criteria": criteria}).dump()}
    found = calibrate(engine, env_from_files(files, {}))
    assert found.ok, found.wrong


def test_links_that_the_solution_leaves_are_there_when_it_is_graded_again(engine: Engine) -> None:
    linked = b"if [ ! -L /app/latest ]; then echo 0 > /logs/verifier/reward.txt; exit; fi\n"
    env = container_env(
        solution={"solve.sh": SOLVE + b"ln -s report.json /app/latest\n"},
        tests={"test.sh": TEST.replace(b"bash\n", b"bash\n" + linked, 1), "check.py": CHECK},
    )
    rows = {row.case: row.observed for row in calibrate(engine, env).rows}
    assert (rows["solution"], rows["solution-again"]) == ("accepted", "accepted")


def test_a_changed_copy_of_an_end_state_keeps_links_and_modes(engine: Engine) -> None:
    more = b"cp report.json run.json; chmod 755 run.json; ln -s report.json latest; mkdir d; echo x > d/x\n"
    env = container_env(solution={"solve.sh": SOLVE + more})
    [result] = engine.rollouts([RolloutRequest(env, policy(env), 1)])
    end = result.end
    other = end.changed({"run.json": b"new", "report.json": None, "d": end.manifest["run.json"], "more": b"1"})
    assert {p: oct(i.mode) for p, i in other.manifest.items()} == {
        "data/orders.csv": "0o100644", "run.json": "0o100755", "latest": "0o120000", "d": "0o100755",
        "more": "0o100644",
    }  # fmt: skip
    assert (other["run.json"], other["d"], other["more"], other.links) == (b"new", REPORT, b"1", ("latest",))
    assert (end["run.json"], "report.json" in end, "d/x" in end) == (REPORT, True, True)
    negatives = dict(broken_states(env, end))
    assert all(isinstance(state, EndState) and state.links == ("latest",) for state in negatives.values())
    assert changed({"a": b"1", "b": b"2"}, {"a": None, "c": b"3"}) == {"b": b"2", "c": b"3"}


def test_records_that_do_not_fit() -> None:
    assert problems(container_env()) == ()
    env = container_env(tests={"other.sh": TEST})
    assert [p[2] for p in problems(env)] == ["there is no file verifier/tests/test.sh"]
    assert "there is no file in verifier/tests" in [p[2] for p in problems(container_env(tests={}))]


# --- the command line ----------------------------------------------------------------------------------------
def test_run_and_collect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store.init(tmp_path, clock=lambda: 0)
    with store.write("test") as tx:
        tx.set_package("count-orders", tx.tree(container_package()))
        tx.commit("a task")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROVER_STORE", str(tmp_path))
    assert cli(["run", "*", "--policy", "solution", "--json"]) == 0
    row = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (row["outcome"], row["score"]) == ("passed", 1.0)
    assert cli(["collect", "*", "--policy", "solution"]) == 0
    names = store.objects.read_tree(store.package("count-orders").tree)
    assert sum(p.startswith("demonstrations/") and "/solution/" not in p and p.endswith(".json") for p in names) == 2
    capsys.readouterr()
    assert cli(["run", "*", "--policy", "solution+nonsense"]) == 2
    assert "no slip called 'nonsense'" in capsys.readouterr().err


# --- another sandbox -----------------------------------------------------------------------------------------
def test_an_engine_of_containers_says_the_same(engine: Engine) -> None:
    docker = make_runtime("docker")
    probe = docker.probe()
    if not probe.works:
        if os.environ.get("ROVER_REQUIRE_DOCKER"):
            pytest.fail(probe.reason)
        pytest.skip(probe.reason)
    env = container_env(start={"data/orders.csv": ORDERS, "run.sh": b"#!/bin/sh\n"})
    try:
        with Engine(docker) as other:
            here, there = solved(engine, env), solved(other, env)
            assert here is not None
            assert there is not None
            assert here.result.trajectory.end_tree == there.result.trajectory.end_tree
            assert [v.scores for v in (here.verdict, there.verdict)] == [here.verdict.scores] * 2
            start = [e.grade_state(env, env.start) for e in (engine, other)]
            assert [v.outcome for v in start] == ["failed"] * 2
    finally:
        docker.close()
