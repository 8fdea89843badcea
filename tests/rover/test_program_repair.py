"""What is usually broken in container tasks: diagnosed with evidence, repaired under every gate, or left alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from program_packages import CHECK, INSTRUCTION, ORDERS, REPORT, SOLVE, TEST, container_env, container_package, placing

from rover.cli.main import run as cli
from rover.diagnose.diagnosis import diagnose
from rover.diagnose.oracle.program import ProgramOracle, oracle_of, same
from rover.diagnose.protocol import ProbeContext
from rover.diagnose.registry import FOR_PROGRAMS, probes, probes_for
from rover.policy.scripted import ScriptedPolicy
from rover.repair.intent import is_admitted
from rover.repair.oracle import state_of
from rover.repair.poll import polled
from rover.repair.program_intent import called, demands_of
from rover.repair.proposals.programs import judging, rewarded
from rover.repair.session import CaseRequest, Considered, consider
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files, load_env
from rover.rollout.records import RolloutRequest
from rover.sandbox.protocol import Runtime
from rover_store.records import Diagnosis, Harness, Limits
from rover_store.store import Store

REWARD = "/logs/verifier/reward.txt"
ALWAYS = f"#!/bin/bash\npython3 /tests/check.py\necho 1 > {REWARD}\n".encode()
MASKED = TEST.replace(b"if python3 /tests/check.py; then", b"python3 /tests/check.py || true\nif [ $? -eq 0 ]; then")
SILENT = f"#!/bin/bash\nset -e\npython3 /tests/check.py\necho 1 > {REWARD}\n".encode()
HASTY = Harness(tools=("shell",), limits=Limits(wall_s=0.4))
ELSEWHERE = TEST.replace(b"/logs/verifier/", b"/logs/")


def with_tests(script: bytes = TEST, check: bytes = CHECK) -> dict[str, Any]:
    return {"tests": {"test.sh": script, "check.py": check}}


#: what is broken -> (changes of the sound package, kind of the finding, component at fault)
DEFECTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "renamed in the request": (
        {"instruction": INSTRUCTION.replace("report.json", "result.json")}, "renamed_deliverable", "task",
    ),
    "renamed in the tests": (
        with_tests(check=CHECK.replace(b"report.json", b"output.json")), "renamed_deliverable", "verifier",
    ),
    "not said where to": (
        {"instruction": "Count the orders in `/app/data/orders.csv` and write `orders` and `total` as JSON.\n"},
        "missing_given", "task",
    ),
    "input not there": ({"start": {"readme.md": b"Hello there.\n"}}, "missing_input", "context"),
    "input misnamed": ({"start": {"data/orders-2024.csv": ORDERS}}, "misnamed_input", "context"),
    "output left over": ({"start": {"data/orders.csv": ORDERS, "report.json": REPORT}}, "leftover_output", "context"),
    "passes whatever is done": (with_tests(ALWAYS), "lax_verifier", "verifier"),
    "failure masked": (with_tests(MASKED), "lax_verifier", "verifier"),
    "no reward for bad work": (with_tests(SILENT), "verifier_crash", "verifier"),
    "reward elsewhere": (with_tests(ELSEWHERE), "verifier_crash", "verifier"),
    "wrong expected value": (with_tests(check=CHECK.replace(b"35.0", b"53.0")), "strict_verifier", "verifier"),
    "too little time": (
        {"harness": HASTY, "solution": {"solve.sh": b"sleep 1\n" + SOLVE}}, "limits_too_tight", "harness",
    ),
    "answer in view": ({"start": {"data/orders.csv": ORDERS, "old/answer.txt": b"x" * 50 + REPORT * 3}}, "", ""),
}  # fmt: skip
#: files beside the package's own
BESIDE = {"input not there": {"context/environment/data/orders.csv": ORDERS}}


@pytest.fixture(scope="module")
def box() -> Iterator[Runtime]:
    with placing() as kind:
        yield kind


@pytest.fixture(scope="module")
def engine(box: Runtime) -> Iterator[Engine]:
    with Engine(box) as engine:
        yield engine


def broken(name: str) -> dict[str, bytes]:
    changes = DEFECTS[name][0]
    return {**container_package(**changes), **BESIDE.get(name, {})}


def diagnosed(engine: Engine, env: Env) -> Diagnosis:
    return diagnose(ProbeContext(env, engine))


def considered(engine: Engine, folder: Path, files: dict[str, bytes]) -> Considered:
    ticks = count(1_700_000_000)
    store = Store.init(folder, clock=lambda: next(ticks))
    with store.write("import") as tx:
        tx.set_package("count-orders", tx.tree(files))
        commit = tx.commit("a task")
    return consider(store, engine, CaseRequest("count-orders", commit))


# --- diagnosis -----------------------------------------------------------------------------------------------
def test_a_sound_task_is_sound(engine: Engine) -> None:
    env = container_env()
    found = diagnosed(engine, env)
    assert (found.verdict, found.findings) == ("sound", ())
    assert {p.name for p in probes_for(env)} >= FOR_PROGRAMS
    assert not FOR_PROGRAMS & {p.name for p in probes_for(env_from_files(_plain(), {}))}
    assert set(probes_for(env)) < set(probes())


def _plain() -> dict[str, bytes]:
    env = container_env()
    verifier = env.verifier.model_copy(update={"program": None})
    return {**env.files, "verifier/verifier.json": verifier.dump()}


@pytest.mark.parametrize("name", [name for name, (_, kind, _) in DEFECTS.items() if kind])
def test_each_defect_is_found_where_it_is(engine: Engine, name: str) -> None:
    _, kind, component = DEFECTS[name]
    found = diagnosed(engine, env_from_files(broken(name), {}))
    assert found.verdict == "environment", found.summary
    own = [f for f in found.findings if f.status == "confirmed" and f.kind == kind]
    assert own, [(f.probe, f.kind) for f in found.findings]
    assert own[0].components[0] == component
    assert own[0].evidence


def test_a_solution_at_odds_with_request_and_tests(engine: Engine) -> None:
    env = container_env(solution={"solve.sh": SOLVE.replace(b"report.json", b"out.json")})
    found = diagnosed(engine, env)
    assert ("deliverable_names", "unsound_reference") in {(f.probe, f.kind) for f in found.findings}


def test_a_name_is_not_blamed_for_what_a_copy_would_lack(engine: Engine) -> None:
    """The tests take either name, and want the link and the mode that the solution leaves."""
    check = CHECK.replace(b'open("/app/report.json")', b'open(glob.glob("/app/re*t.json")[0])')  # as /app/report.json
    check = b"import glob\n# such as /app/report.json\n" + check
    test = TEST.replace(b"if python3", b"if [ -L /app/latest ] && [ -x /app/run.sh ] && python3")
    solve = SOLVE + b"ln -s data/orders.csv /app/latest; echo > /app/run.sh; chmod 755 /app/run.sh\n"
    instruction = INSTRUCTION.replace("report.json", "result.json")
    env = container_env(instruction=instruction, solution={"solve.sh": solve}, **with_tests(test, check))
    assert "renamed_deliverable" not in {f.kind for f in diagnosed(engine, env).findings}


def test_what_the_workspace_gives_away(engine: Engine) -> None:
    answer = b'It is: {"orders": 3, "total": 35.0, "by": "the accounts office"}'
    solve = SOLVE.replace(b'for r in rows)}', b'for r in rows), "by": "the accounts office"}')
    check = CHECK.replace(b'"total": 35.0}', b'"total": 35.0, "by": "the accounts office"}')
    start = {"data/orders.csv": ORDERS, "old/answer.txt": answer}
    env = container_env(start=start, solution={"solve.sh": solve}, **with_tests(check=check))
    found = {(f.kind, f.details["path"]) for f in diagnosed(engine, env).findings}
    assert ("leaked_answer", "old/answer.txt") in found
    env = container_env(start={"data/orders.csv": ORDERS, "notes/check.py": CHECK})
    found = {(f.kind, f.details["path"]) for f in diagnosed(engine, env).findings}
    assert ("verifier_readable", "notes/check.py") in found


def test_a_program_that_goes_by_chance(engine: Engine) -> None:
    script = f"echo 0.$(date +%N | tail -c 7 | head -c 6) > {REWARD}\n".encode()
    kinds = {(f.probe, f.kind) for f in diagnosed(engine, container_env(**with_tests(script))).findings}
    assert ("graded_again", "flaky_verifier") in kinds


# --- the oracle and the intent -------------------------------------------------------------------------------
def test_the_solution_is_the_oracle(engine: Engine) -> None:
    env = container_env()
    oracle = oracle_of(engine, env, env.contract)
    assert isinstance(oracle, ProgramOracle)
    states = [{"report.json": d} for d in (REPORT, b'{"total": 35.0, "orders": 3}', b"", b'{"orders": 9}')]
    right, alike, empty, other = oracle.judge([state_of(env.start, {**env.start, **s}) for s in states])
    assert (right.accepts, alike.accepts) == (True, True)
    assert (empty.accepts, empty.satisfied, empty.broken) == (False, {"reward": False}, "report.json is empty")
    assert (other.accepts, other.open, other.satisfied) == (False, True, {}), "there may be other right work"
    [start] = oracle.judge([state_of(env.start, env.start)])
    assert start.broken == "report.json is missing"
    two = container_env(keys=("a", "b"))
    [start] = oracle_of(engine, two, two.contract).judge([state_of(two.start, two.start)])
    assert (start.satisfied, start.broken) == ({}, "report.json is missing"), "which of several is not known"


def test_equal_work() -> None:
    assert same(b"a \nb\n\n", b"a\nb")
    assert same(b'{"a": 1, "b": 2}', b'{"b":2,"a":1}')
    assert not same(b"a b", b"a  b")
    assert not same(b"\xff", b"\xfe")


def test_two_parts_outvote_the_third(engine: Engine) -> None:
    asked = env_from_files(broken("renamed in the request"), {})
    intent = polled(engine, asked)
    assert "/app/report.json" in intent.instruction
    assert (intent.said, intent.undecided) == (("report.json",), ())
    tests = polled(engine, env_from_files(broken("renamed in the tests"), {}))
    assert tests.instruction == INSTRUCTION
    silent = polled(engine, env_from_files(broken("not said where to"), {}))
    assert silent.said == ("report.json",)


def test_a_tie_is_left_to_a_person_until_others_did_the_same(engine: Engine) -> None:
    from rover.diagnose.protocol import Recorded

    env = env_from_files(broken("wrong expected value"), {})
    assert polled(engine, env).undecided == ("what the tests reject in the solution's work",)
    write = f"printf '%s' '{REPORT.decode().strip()}' > report.json"
    policy = ScriptedPolicy.of([{"tool": "shell", "arguments": {"command": write}}])
    [(result, verdict)] = engine.run([RolloutRequest(env, policy, 1)])
    recorded = (Recorded(result.id, result.trajectory, verdict),)
    assert polled(engine, env, recorded=recorded).undecided == ()


def test_an_edit_of_the_request_may_say_no_more_and_no_less() -> None:
    env = container_env()

    def states(text: str, said: tuple[str, ...] = ()) -> set[str]:
        now = env_from_files({**env.files, "task/instruction.md": text.encode()}, {})
        return {d.state for d in demands_of(env.contract, INSTRUCTION, said, now)}

    assert states(INSTRUCTION) == {"kept"}
    assert states(INSTRUCTION.replace("\n", " \n")) == {"kept"}
    assert states(INSTRUCTION.splitlines()[0]) == {"kept", "gone"}
    assert states(INSTRUCTION + "Write it to `/app/report.json`.\n", ("report.json",)) == {"kept"}
    assert states(INSTRUCTION + "Round to 2 decimals in `/app/other.txt`.\n") == {"kept", "added"}
    assert "gone" in states(INSTRUCTION, ("other.json",))


# --- proposals -----------------------------------------------------------------------------------------------
def test_names_are_changed_as_whole_words() -> None:
    text = "Write `/app/out/result.json` (result.json, not my-result.json or result.jsonl)."
    assert called(text, "out/result.json", "out/report.json") == (
        "Write `/app/out/report.json` (report.json, not my-result.json or result.jsonl)."
    )


@pytest.mark.parametrize(
    ("script", "line"),
    [
        (ALWAYS, "if python3 /tests/check.py; then"),
        (MASKED, "python3 /tests/check.py"),
        (f"pytest /tests | tee /logs/x\n[ $? -eq 0 ] && echo 1 > {REWARD}".encode(), "set -o pipefail"),
    ],
)
def test_a_script_that_rejects_nothing_is_made_to_judge(script: bytes, line: str) -> None:
    new, what = judging(script.decode())
    assert what
    assert line in new.splitlines()
    assert "|| true" not in new


@pytest.mark.parametrize("script", [TEST, SILENT, b"", b"#!/bin/sh\nset -e\n/tests/run\necho 1 > reward.txt\n"])
def test_a_script_that_judges_is_left_alone(script: bytes) -> None:
    assert judging(script.decode()) == (script.decode(), "")


def test_a_reward_where_it_is_looked_for() -> None:
    assert rewarded(ELSEWHERE.decode(), ["reward"])[0] == TEST.decode()
    assert rewarded('echo 1 > "$DIR/reward.txt"', [])[0] == 'echo 1 > "/logs/verifier/reward.txt"'
    first = rewarded(SILENT.decode(), ["reward"])[0].splitlines()[:3]
    assert first == ["#!/bin/bash", f"echo 0 > {REWARD}", "set -e"]
    two = rewarded("python3 x > /logs/verifier/reward.json", ["a", "b"])[0].splitlines()[0]
    assert two == "echo '{\"a\": 0, \"b\": 0}' > /logs/verifier/reward.json"


# --- repair --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "letter"),
    [
        ("renamed in the request", "task"), ("renamed in the tests", "verifier"), ("input not there", "context"),
    ],
)  # fmt: skip
def test_a_defect_is_repaired_under_every_gate(engine: Engine, tmp_path: Path, name: str, letter: str) -> None:
    found = considered(engine, tmp_path, broken(name))
    assert found.record.outcome == "dry_run", found.record.reason
    [proposal] = found.record.proposals
    assert proposal.component == letter
    chosen = next(c for c in found.record.candidates if c.mask == found.record.selected)
    gates = {g.gate for g in chosen.gates if g.passed}
    assert gates == {"intent", "boundary", "resolved", "verifier", "siblings"}
    assert all(g.passed for g in found.record.confirmation)
    assert found.lattice is not None
    assert found.lattice.chosen is not None
    assert diagnosed(engine, found.lattice.chosen.env).verdict == "sound"


def test_two_defects_at_once_take_two_edits(engine: Engine, tmp_path: Path) -> None:
    files = container_package(instruction=INSTRUCTION.replace("report.json", "result.json"), **with_tests(SILENT))
    found = considered(engine, tmp_path, files)
    assert found.record.outcome == "dry_run", found.record.reason
    assert found.record.selected == 2 + 8


def test_what_the_parts_disagree_on_is_a_person_s(engine: Engine, tmp_path: Path) -> None:
    found = considered(engine, tmp_path, broken("wrong expected value"))
    assert found.record.outcome == "undecided"
    assert "a person decides" in found.record.reason


def test_a_wrong_value_is_put_right_once_others_did_what_the_solution_does(box: Runtime, tmp_path: Path) -> None:
    ticks = count(1_700_000_000)
    store = Store.init(tmp_path, clock=lambda: next(ticks))
    with store.write("import") as tx:
        tx.set_package("count-orders", tx.tree(broken("wrong expected value")))
        commit = tx.commit("a task")
    env = load_env(store, store.package("count-orders", commit).tree)
    write = f"printf '%s' '{REPORT.decode().strip()}' > report.json"
    policy = ScriptedPolicy.of([{"tool": "shell", "arguments": {"command": write}}])
    with Engine(box, store.evidence) as engine:
        engine.run([RolloutRequest(env, policy, 1)])
        found = consider(store, engine, CaseRequest("count-orders", commit))
    assert found.record.outcome == "dry_run", found.record.reason
    [proposal] = found.record.proposals
    assert proposal.rationale == "expect 35.0 instead of 53.0 in tests/check.py"


def test_a_repair_is_promoted_and_admitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store.init(tmp_path, clock=lambda: 1_700_000_000)
    with store.write("import") as tx:
        tx.set_package("count-orders", tx.tree(broken("passes whatever is done")))
        tx.commit("a task")
    monkeypatch.setenv("ROVER_STORE", str(tmp_path))
    assert cli(["repair", "count-orders", "--fcr"]) == 0
    assert "give the full mark only where the tests hold" in " ".join(capsys.readouterr().out.split())
    again = Store.open(tmp_path)
    env = load_env(again, again.package("count-orders").tree)
    assert is_admitted(env)
    script = env.verifier_files["tests/test.sh"].decode().splitlines()
    assert script[1:3] == ["if python3 /tests/check.py; then", f"  echo 1 > {REWARD}"]
    assert cli(["repair", "count-orders", "--fcr"]) == 1, "nothing to promote"
    assert "nothing is wrong with the package" in " ".join(capsys.readouterr().out.split())
