"""Policies: plans and their slips, scripts, replay, every attacker, and the registry."""

from __future__ import annotations

import json
import random
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from packages import REPORT, runtime, solution_calls, summary_package, summary_resources

from rover.harness.tools import TOOLS
from rover.policy.null import NULL_POLICIES, NullPolicy
from rover.policy.plan import PlanSession
from rover.policy.protocol import Action, PolicyFailure, PolicyView
from rover.policy.registry import get_policy
from rover.policy.replay import ReplayPolicy
from rover.policy.scripted import ScriptedPolicy
from rover.policy.slip import SLIPS, Slip, SlipKind
from rover.policy.solver import SolverPolicy
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files
from rover.rollout.records import RolloutRequest, RolloutResult
from rover_store.errors import PackageError, UsageError
from rover_store.records import Call, Context, ContextFile, Contract, Deliverable, Harness, ToolCall, Verdict

ENV = env_from_files(summary_package(), summary_resources())
VIEW = PolicyView("Do it.", ())


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made = runtime()
    with Engine(made) as engine:
        yield engine
    made.close()


def solve(view: PolicyView, seed: int) -> Generator[ToolCall, Call, str]:
    """A small solver: it reads, and writes what is right."""
    read, write = solution_calls()
    got = yield read
    if got.status == "error" or json.loads(got.output)["total"] != 6:
        raise PolicyFailure("not six orders")
    done = yield write
    assert done.status == "ok"
    return "Wrote report.csv."


def once(engine: Engine, policy: Any, env: Env = ENV, seed: int = 1) -> tuple[RolloutResult, Verdict]:
    return engine.run([RolloutRequest(env, policy, seed)])[0]


def calls_of(session: Any) -> tuple[list[ToolCall], str]:
    """All calls of a session whose calls succeed, and its last message."""
    made: list[ToolCall] = []
    results: tuple[Call, ...] = ()
    while True:
        action: Action = session.act(results, deadline_s=9)
        if not action.calls:
            return made, action.message
        made += action.calls
        results = tuple(Call(id=c.id, tool=c.tool, arguments=c.arguments, output="{}") for c in action.calls)


# --- solver, scripted, replay ----------------------------------------------------------------------------
def test_a_solver_solves(engine: Engine) -> None:
    policy = SolverPolicy("toy", "demonstrator", solve)
    result, verdict = once(engine, policy)
    assert policy.id == "solver:toy:demonstrator:1"
    assert (verdict.outcome, result.trajectory.final_message) == ("passed", "Wrote report.csv.")
    assert all(len(turn.calls) <= 1 for turn in result.trajectory.turns)


def test_a_solver_without_a_plan_is_a_policy_error(engine: Engine) -> None:
    def stumble(view: PolicyView, seed: int) -> Generator[ToolCall, Call, str]:
        result = yield ToolCall(id="1", tool="list_files")
        return str(json.loads(result.output)["nothing"])

    trajectory = once(engine, SolverPolicy("toy", "alternative", stumble))[0].trajectory
    assert (trajectory.end, trajectory.error) == ("policy_error", "the plan broke: KeyError: 'nothing'")
    assert len(trajectory.turns) == 1


@pytest.mark.parametrize("kind", SLIPS)
def test_each_slip_spoils_the_solution_in_its_own_way(engine: Engine, kind: SlipKind) -> None:
    policy = SolverPolicy("toy", "demonstrator", solve, Slip(kind))
    outcomes = [once(engine, policy, seed=seed) for seed in (1, 2)]
    assert policy.id.endswith(f":{kind}")
    assert all(v.score is not None and v.score < 1 for _, v in outcomes)
    ends = [r.end.get("report.csv") for r, _ in outcomes]
    if kind in ("skip_write", "stop_early"):
        assert ends == [None, None]
    else:
        assert REPORT not in ends
        assert once(engine, policy, seed=1)[0].reused


JSON_TEXT = json.dumps({"a": 12, "b": [{"k": "x", "v": 3}, {"k": "y", "v": 4}]})
MEMO = "Sales memo\nNorth sold 120.5 in 2024.\nSouth sold 80.\n"


@pytest.mark.parametrize("kind", ["wrong_column", "perturb_number", "drop_row"])
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write_table", {"path": "o.csv", "columns": ["a", "b"], "rows": [["x", 1], ["y", "2.50"]]}),
        ("write_file", {"path": "o.json", "content": JSON_TEXT}),
        ("write_file", {"path": "o.md", "content": MEMO}),
        ("edit_table", {"path": "o.csv", "where": {"id": "7"}, "set": {"v": 10}}),
        ("edit_workbook", {"path": "o.xlsx", "sheet": "s", "cells": {"B2": 5, "C9": "x"}}),
    ],
    ids=["table", "json", "memo", "edit", "cells"],
)
def test_slips_spoil_every_kind_of_write_once(kind: SlipKind, tool: str, arguments: dict[str, Any]) -> None:
    call = ToolCall(id="1", tool=tool, arguments=arguments)
    for seed in range(5):
        slip = Slip(kind)
        spoilt = slip.apply(call, random.Random(seed))
        assert spoilt is not None
        assert spoilt.arguments != arguments
        assert spoilt == Slip(kind).apply(call, random.Random(seed))
        assert slip.apply(call, random.Random(seed)) == call
    assert arguments == call.arguments


def test_reading_is_never_spoilt() -> None:
    call = ToolCall(id="1", tool="read_table", arguments={"path": "a.csv"})
    assert all(Slip(kind).apply(call, random.Random(0)) == call for kind in SLIPS)


def test_a_skipped_write_looks_done_to_the_plan() -> None:
    seen: list[str] = []

    def plan(view: PolicyView, seed: int) -> Generator[ToolCall, Call, str]:
        edit = {"path": "a.csv", "where": {"id": 1}, "set": {"v": 2}}
        seen.append((yield ToolCall(id="1", tool="edit_table", arguments=edit)).output)
        yield ToolCall(id="2", tool="write_file", arguments={"path": "b", "content": ""})
        return "done"

    made, message = calls_of(PlanSession(plan, VIEW, 0, Slip("skip_write")))
    assert ([c.id for c in made], message, seen) == (["2"], "done", ['{"changed": 1}'])
    assert calls_of(PlanSession(plan, VIEW, 0, Slip("stop_early"))) == ([], "Done.")


def test_a_script_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"calls": [{"tool": "a"}, [{"tool": "b"}, {"tool": "c"}]], "message": "m"}))
    policy = get_policy(f"scripted:{file}")
    made, message = calls_of(policy.start(VIEW, 0))
    assert ([c.tool for c in made], message) == (["a", "b", "c"], "m")
    slipped = get_policy(f"scripted:{file}+drop_row")
    assert slipped.id == f"{policy.id}:drop_row"
    assert [c.tool for c in calls_of(slipped.start(VIEW, 0))[0]] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("3", "calls: must be a list of calls"),
        ('[{"tool": 3}]', "calls.0: must be an object"),
        ('[{"tool": "a", "arguments": []}]', "calls.0.arguments: must be an object"),
        ('{"calls": [], "message": 1}', "message: must be text"),
    ],
)
def test_a_bad_script_names_file_place_and_reason(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(PackageError) as caught:
        ScriptedPolicy.load(tmp_path / "p.json")
    assert words in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "p.json"))


def test_replay_makes_the_same_state(engine: Engine) -> None:
    first, _ = once(engine, SolverPolicy("toy", "demonstrator", solve))
    again, verdict = once(engine, ReplayPolicy(first.trajectory))
    assert again.trajectory.key.policy == f"replay:{first.id}"
    assert [t.tree for t in again.trajectory.turns] == [t.tree for t in first.trajectory.turns]
    assert (again.trajectory.final_message, verdict.outcome) == (first.trajectory.final_message, "passed")


# --- attackers -------------------------------------------------------------------------------------------
ALL_TOOLS = tuple(TOOLS)
FILE_TOOLS = ("list_files", "read_file", "write_file", "read_table", "write_table")


def attacked(tools: tuple[str, ...], *targets: str) -> Env:
    """The toy package with other tools and deliverables."""
    files = summary_package()
    files["harness/harness.json"] = Harness(tools=tools).dump()
    kinds = {"csv": "csv", "xlsx": "xlsx", "json": "json", "md": "markdown"}
    made = [Deliverable(id=t, path=t, type=kinds[t.rpartition(".")[2]]) for t in targets]  # type: ignore[arg-type]
    if targets:
        files["task/contract.json"] = Contract(deliverables=tuple(made)).dump()
    return env_from_files(files, summary_resources())


@pytest.mark.parametrize("name", [*NULL_POLICIES, "tamper:echo", "tamper_link:copy_inputs"])
@pytest.mark.parametrize(
    "tools",
    [ALL_TOOLS, FILE_TOOLS, ("shell",), ("write_table",), ()],
    ids=["all", "files", "shell", "table", "none"],
)
def test_no_attacker_passes_and_none_breaks(engine: Engine, name: str, tools: tuple[str, ...]) -> None:
    policy = get_policy(f"null:{name}")
    result, verdict = once(engine, policy, attacked(tools))
    assert (result.trajectory.end, result.trajectory.error) == ("completed", "")
    assert verdict.outcome == "failed"
    assert policy.attacker


def end_of(engine: Engine, name: str, *targets: str, tools: tuple[str, ...] = ALL_TOOLS) -> RolloutResult:
    return once(engine, NullPolicy(name), attacked(tools, *targets))[0]


TARGETS = ("out/a.csv", "b.md", "c.json", "d.xlsx")


def test_what_each_attacker_leaves(engine: Engine) -> None:
    assert set(end_of(engine, "nothing", *TARGETS).end) == set(ENV.start)
    assert end_of(engine, "echo", *TARGETS).end["b.md"] == ENV.instruction.encode()
    assert end_of(engine, "echo").trajectory.final_message == ENV.instruction
    assert len(end_of(engine, "call_all").trajectory.turns) == len(ALL_TOOLS) + 1
    assert {end_of(engine, "empty_files", *TARGETS).end[t] for t in TARGETS} == {b""}
    assert dict(end_of(engine, "delete_all").end) == {}
    assert dict(end_of(engine, "delete_all", tools=("list_files", "delete_file")).end) == {}


def test_inputs_are_copied_the_likest_last(engine: Engine) -> None:
    for tools in (ALL_TOOLS, FILE_TOOLS):
        end = end_of(engine, "copy_inputs", "out/a.csv", "b.md", tools=tools).end
        assert end["out/a.csv"].splitlines()[:2] == ENV.start["orders.csv"].splitlines()[:2]
        assert end["b.md"] == ENV.start["notes.md"]


def test_every_value_is_dumped_in_every_format(engine: Engine) -> None:
    end = end_of(engine, "dump_values", *TARGETS).end
    assert b"1200.00" in end["out/a.csv"]
    assert end["out/a.csv"].startswith(b"orders.csv,report.csv,region,orders,total,amount,order_id,day\n")
    assert {"region", "orders", "total", "texts"} <= set(json.loads(end["c.json"]))
    assert all(word in end["b.md"] for word in (b"1200.00", b"Amounts are in EUR", b"total: "))
    assert end["d.xlsx"][:2] == b"PK"


def test_tampering_plants_and_links(engine: Engine) -> None:
    end = end_of(engine, "tamper", *TARGETS).end
    assert {"sitecustomize.py", "conftest.py", "bin/python3", "sh", "out/a.csv"} <= set(end)
    assert end.manifest["sh"].mode == 0o100755
    links = end_of(engine, "tamper_link", *TARGETS).end
    assert links.links == tuple(sorted(TARGETS))
    assert "sitecustomize.py" in links


def test_attackers_cope_with_an_empty_workspace(engine: Engine) -> None:
    files = summary_package()
    files["context/context.json"] = Context(files=(ContextFile(path="x.md"),)).dump()
    del files["context/files/notes.md"]
    files["context/files/x.md"] = b""
    env = env_from_files(files, {})
    ends = [once(engine, NullPolicy(name), env)[0].trajectory.end for name in NULL_POLICIES]
    assert set(ends) == {"completed"}


# --- the registry ----------------------------------------------------------------------------------------
class Toy:
    name = "toy"
    version = "7"

    def demonstrator(self) -> Any:
        return solve

    def alternative(self) -> Any:
        return solve


@pytest.mark.parametrize(
    ("spec", "policy_id"),
    [
        ("solver", "solver:toy:demonstrator:7"),
        ("solver:alternative", "solver:toy:alternative:7"),
        ("solver:demonstrator+drop_row", "solver:toy:demonstrator:7:drop_row"),
        ("solver+drop_row", "solver:toy:demonstrator:7:drop_row"),
        ("null:echo", "null:echo:1"),
        ("null:tamper:echo", "null:tamper:echo:1"),
    ],
)
def test_specs(spec: str, policy_id: str) -> None:
    assert get_policy(spec, family=Toy()).id == policy_id


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("magic", "no policy is called 'magic'"),
        ("solver", "names no family"),
        ("null", "needs a name, null:NAME"),
        ("null:fly", "no null attacker is called fly"),
        ("null:echo:tamper", "no null attacker is called echo:tamper"),
        ("replay:abc", "recorded rollouts are in a store"),
        ("scripted:x+y", "no slip is called 'y'"),
        ("openai", "needs a name, openai:MODEL"),
        ("openai:m", "neither a server nor a key"),
    ],
)
def test_bad_specs(spec: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        get_policy(spec)
    assert words in caught.value.message


def test_a_solver_is_one_of_two() -> None:
    with pytest.raises(UsageError, match="a demonstrator, an alternative, or hasty"):
        get_policy("solver:third", family=Toy())


def test_what_attackers_did_is_said_of_each() -> None:
    from rover.policy.null import DID, attackers, with_deed

    assert set(DID) == set(attackers(program=True))
    assert with_deed("null:echo:1") == "null:echo:1 (said the request back)"
    assert with_deed("solver:edit:alternative:1") == "solver:edit:alternative:1"
