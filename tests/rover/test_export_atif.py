"""Rollouts as ATIF documents and back: nothing lost, nothing believed that a replay does not show."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import exported
import packages
import pytest
from exported import FOREIGN, NAME

from rover.construct.families.registry import family
from rover.construct.solved import solution_of
from rover.ops.export import ExportRequest, export
from rover.ops.import_ import ImportReport, ImportRequest, import_
from rover.port.atif import model as atif
from rover.port.atif.acting import acting, acts
from rover.port.atif.recorded import trajectory_of
from rover.port.protocol import Wanted
from rover.rollout.engine import Engine
from rover.rollout.env import load_env
from rover.rollout.records import RolloutRequest, rollout_id
from rover.sandbox.protocol import Runtime
from rover_store.errors import PackageError, RoverError, UsageError
from rover_store.ids import digest
from rover_store.records import ProgramExit, Turn
from rover_store.store import Store

VALIDATE = """
import pathlib, sys
from harbor.utils.trajectory_validator import TrajectoryValidator
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.json")):
    one = TrajectoryValidator()
    print(path.name, one.validate(path), one.get_errors())
"""


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    made = packages.runtime()
    yield made
    made.close()  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, runtime: Runtime) -> Store:
    return exported.made(tmp_path_factory.mktemp("store"), runtime)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Path:
    folder = tmp_path_factory.mktemp("out") / "atif"
    report = export(store, ExportRequest("atif", folder))
    assert len(report.written) == len(exported.POLICIES) + 1
    return folder


def documents(folder: Path) -> dict[str, atif.Document]:
    return {p.name: atif.read(p, p.name) for p in sorted(folder.rglob("*.json"))}


def by_policy(folder: Path, start: str) -> Path:
    """The document of the first rollout whose policy's id begins like this and that was not cut short."""
    for path in sorted(folder.rglob("*.json")):
        own = (atif.read(path, path.name).extra or {})["rover"]
        if own["key"]["policy"].startswith(start) and own.get("end", "completed") == "completed":
            return path
    raise AssertionError(start)


def taken(store: Store, runtime: Runtime, path: Path, package: str = "", **options: Any) -> ImportReport:
    wanted = Wanted(options={"package": package} if package else {})
    return import_(store, ImportRequest("atif", path, wanted, **options), runtime=lambda: runtime)


def test_a_document_holds_the_whole_rollout(store: Store, out: Path) -> None:
    rollouts = dict(store.evidence.iter_rollouts())
    assert any(t.irregular for t in rollouts.values())
    assert {t.end for t in rollouts.values()} > {"policy_error"}
    for name, document in documents(out).items():
        recorded = rollouts.pop(str(document.session_id))
        again = trajectory_of(document, name)
        assert again == recorded
        assert again.dump() == recorded.dump()
    assert not rollouts


def test_what_a_document_says(out: Path) -> None:
    solved = atif.read(by_policy(out, packages.solution().id), "x")
    assert [step.source for step in solved.steps] == ["user", "agent", "agent", "agent"]
    assert solved.steps[0].message == packages.INSTRUCTION
    assert solved.extra is not None
    assert (solved.extra["reward"], solved.extra["outcome"], solved.extra["score"]) == (1.0, "passed", 1.0)
    assert set(solved.extra["rewards"].values()) == {1.0}
    assert all(step.llm_call_count == 0 and step.metrics is None for step in solved.steps[1:])
    assert solved.final_metrics is not None
    assert solved.final_metrics.total_steps == 4
    tools = [t["function"]["name"] for t in solved.agent.tool_definitions or ()]
    assert tools == list(packages.TOOLS)


def test_tokens_are_told_where_they_are_known(out: Path) -> None:
    path = by_policy(out, "hf:")
    said = [step.metrics for step in atif.read(path, "x").steps if step.metrics]
    whole = (1, 2, 3, 3, 7, 0, 92, 7, 7, 0, 91)
    assert [m.prompt_token_ids for m in said] == [whole[:3], whole[:7], whole]
    assert [m.completion_token_ids for m in said] == [(3, 7, 0), (7, 7, 0), (11, 7, 0)]
    assert {m.logprobs for m in said} == {(-0.25, -1e-05, 0.0)}
    assert [m.prompt_tokens for m in said] == [3, 7, 11]
    assert b'"completion_token_ids": [11, 7, 0],' in path.read_bytes()  # one line a list


def test_the_same_bytes_again(store: Store, out: Path, tmp_path: Path) -> None:
    export(store, ExportRequest("atif", tmp_path / "again"))
    names = sorted(p.relative_to(out) for p in out.rglob("*.json"))
    assert names == sorted(p.relative_to(tmp_path / "again") for p in (tmp_path / "again").rglob("*.json"))
    assert all((out / n).read_bytes() == (tmp_path / "again" / n).read_bytes() for n in names)


def test_a_rollout_by_its_id_and_by_options(store: Store, out: Path, tmp_path: Path) -> None:
    name = by_policy(out, "hf:").stem
    report = export(store, ExportRequest("atif", tmp_path / "one", pattern=name))
    assert [row.path for row in report.written] == [f"{NAME}/{name}.json"]
    assert report.rows[0].notes == ("tokens of 3 of 3 turns",)
    passed = export(store, ExportRequest("atif", tmp_path / "two", options={"outcome": "passed", "policy": "hf:*"}))
    assert [row.path for row in passed.written] == [f"{NAME}/{name}.json"]
    for options, words in (({"policy": "nobody"}, "no recorded rollout"), ({"nonsense": "1"}, "no option 'nonsense'")):
        with pytest.raises(UsageError, match=words):
            export(store, ExportRequest("atif", tmp_path / "three", options=options))
    with pytest.raises(RoverError, match="not found: ffff"):
        export(store, ExportRequest("atif", tmp_path / "three", pattern="ffff"))
    assert not (tmp_path / "three").exists()


def test_another_store_gets_the_same_rollouts(store: Store, runtime: Runtime, out: Path, tmp_path: Path) -> None:
    """Same ids, same bytes, same trees, readable to the last blob; and a second time nothing is done."""
    other = exported.bare(tmp_path / "other", store)
    report = taken(other, runtime, out)
    assert {row.outcome for row in report.rows} == {"recorded"}
    assert dict(other.evidence.iter_rollouts()) == dict(store.evidence.iter_rollouts())
    for rollout, trajectory in store.evidence.iter_rollouts():
        again = other.evidence.get_rollout(rollout)
        assert again is not None
        assert again.dump() == trajectory.dump()
        for tree in (trajectory.start, *(turn.tree for turn in trajectory.turns)):
            assert other.evidence.tree(tree) == store.evidence.tree(tree)
            assert all(other.evidence.read(item.id) for item in other.evidence.tree(tree).values() if item.id)
    assert [v.model_copy(update={"runtime": ""}) for v in other.evidence.iter_verdicts()] == [
        v.model_copy(update={"runtime": ""}) for v in store.evidence.iter_verdicts()
    ]
    assert {row.outcome for row in taken(other, runtime, out).rows} == {"held"}


def edited(path: Path, target: Path, change: Any) -> Path:
    value = json.loads(path.read_bytes())
    change(value)
    target.write_text(json.dumps(value))
    return target


def test_a_claim_that_a_replay_does_not_show(store: Store, runtime: Runtime, out: Path, tmp_path: Path) -> None:
    """A forged output and a forged tree: named, and what happened here is recorded under a policy of its own."""
    other = exported.bare(tmp_path / "other", store)
    path = by_policy(out, packages.solution().id)

    def output(value: Any) -> None:
        value["steps"][1]["observation"]["results"][0]["content"] = "{}"

    def tree(value: Any) -> None:
        value["steps"][2]["extra"]["rover"]["tree"] = "1" * 40

    for change, words in ((output, "turn 1: call 1 (read_table): another output"), (tree, "turn 2: it leaves")):
        row = taken(other, runtime, edited(path, tmp_path / "x.json", change)).rows[0]
        assert (row.outcome, row.notes[0]) == ("differs", "recorded as it went here")
        assert row.reason.startswith(words)
        recorded = other.evidence.get_rollout(row.rollout)
        assert recorded is not None
        assert recorded.key.policy.startswith("atif:rover/")
    assert other.evidence.get_rollout(atif.read(path, "x").session_id or "") is None


def renamed(value: Any, policy: str) -> None:
    value["extra"]["rover"]["key"]["policy"] = policy
    value["extra"]["rover"]["rollout"] = digest(value["extra"]["rover"]["key"])


def test_nobody_acts_in_an_attackers_name(store: Store, runtime: Runtime, out: Path, tmp_path: Path) -> None:
    """Right work under the id of an attacker, a solution or a solver would be believed by calibration and repair."""
    other = exported.bare(tmp_path / "other", store)
    path = by_policy(out, packages.solution().id)
    solver = f"solver:summarise:demonstrator:{family('summarise').version}"
    for policy in ("null:echo:1", "null:echo:9", "solution:1:0123456789abcdef", solver, "scripted:0123456789abcdef"):

        def forged(value: Any, policy: str = policy) -> None:
            renamed(value, policy)

        row = taken(other, runtime, edited(path, tmp_path / "x.json", forged)).rows[0]
        assert row.outcome in ("differs", "held")
        recorded = other.evidence.get_rollout(row.rollout)
        assert recorded is not None
        assert recorded.key.policy.startswith("atif:rover/")


def test_no_agent_program_acts_in_an_attackers_name(
    store: Store, runtime: Runtime, out: Path, tmp_path: Path
) -> None:
    """Of an agent program workspaces alone are compared; whoever bears another name acts itself all the same."""
    other = exported.bare(tmp_path / "other", store)

    def forged(value: Any) -> None:
        value["extra"]["rover"]["program"] = {"exit_code": 0}
        for step in value["steps"][1:]:
            for call in step.get("tool_calls") or ():
                call["function_name"] = "bash"
        renamed(value, "null:nothing:1")

    path = edited(by_policy(out, exported.POLICIES["shell"].id), tmp_path / "x.json", forged)
    row = taken(other, runtime, path).rows[0]
    assert row.outcome == "differs"
    assert all(not t.key.policy.startswith("null:") for _, t in other.evidence.iter_rollouts())


def test_a_part_of_what_is_done_is_not_all_of_it(store: Store, runtime: Runtime, out: Path, tmp_path: Path) -> None:
    """An attacker that did nothing, says the file: here it does all that it does."""
    other = exported.bare(tmp_path / "other", store)

    def shorter(value: Any) -> None:
        del value["steps"][1:-1]
        value["steps"][-1]["step_id"] = 2

    path = edited(by_policy(out, "null:delete_all"), tmp_path / "x.json", shorter)
    row = taken(other, runtime, path).rows[0]
    assert row.outcome == "differs"
    assert row.reason.endswith("2 more turns")


def test_who_can_be_made_here(store: Store, out: Path) -> None:
    env = load_env(store, store.package(NAME).tree)
    env = replace(env, record=env.record.model_copy(update={"family": "summarise"}))
    scripted = trajectory_of(atif.read(by_policy(out, packages.solution().id), "x"), "x")

    def made(policy: str) -> str:
        key = scripted.key.model_copy(update={"policy": policy})
        found = acting(scripted.model_copy(update={"key": key}), env)
        return found.id if found is not None else ""

    now = family("summarise").version
    known = (
        f"solver:summarise:demonstrator:{now}", f"solver:summarise:alternative:{now}:drop_row", "null:tamper:echo:1",
        scripted.key.policy,
    )  # fmt: skip
    assert tuple(map(made, known)) == known
    unknown = (
        f"solver:edit:demonstrator:{now}", "solver:summarise:demonstrator:0", f"solver:summarise:demonstrator:{now}:no",
        "solver:", "null:echo", "solution:1:0123456789abcdef", "scripted:0123456789abcdef",
        f"{scripted.key.policy}:drop_row",
    )  # fmt: skip
    assert {made(policy) for policy in unknown} == {""}
    assert not any(map(acts, ("hf:test", "openai:model", "atif:a/1", "command:agent:0")))


def test_what_the_infrastructure_spoilt_is_not_taken(
    store: Store, runtime: Runtime, out: Path, tmp_path: Path
) -> None:
    def spoilt(value: Any) -> None:
        value["extra"]["rover"]["end"] = "infra_error"

    path = edited(by_policy(out, "null:echo"), tmp_path / "x.json", spoilt)
    with pytest.raises(PackageError, match="is infra_error: nothing of such a rollout is kept"):
        taken(exported.bare(tmp_path / "other", store), runtime, path)


def test_a_verdict_is_never_believed(store: Store, runtime: Runtime, out: Path, tmp_path: Path) -> None:
    other = exported.bare(tmp_path / "other", store)

    def better(value: Any) -> None:
        value["extra"]["verdicts"][0]["outcome"] = "passed"

    row = taken(other, runtime, edited(by_policy(out, "null:echo"), tmp_path / "x.json", better)).rows[0]
    assert (row.outcome, row.reason) == ("recorded", "failed")
    assert row.notes == ("the file says passed, the same verifier says failed here",)


def test_a_rollout_of_an_agent_program(store: Store, runtime: Runtime, out: Path, tmp_path: Path) -> None:
    """Its calls are played as commands of the shell: workspaces are compared, words are the program's own."""
    one, other = exported.bare(tmp_path / "one", store), exported.bare(tmp_path / "two", store)
    shell = trajectory_of(atif.read(by_policy(out, exported.POLICIES["shell"].id), "x"), "x")

    def told(turn: Turn) -> Turn:
        own = {"tool": "bash", "output": "as it said", "id": f"{turn.index}"}
        return turn.model_copy(update={"calls": tuple(call.model_copy(update=own) for call in turn.calls)})

    turns = tuple(map(told, shell.turns))
    key = shell.key.model_copy(update={"policy": "command:agent:0"})
    program = shell.model_copy(update={"key": key, "turns": turns, "program": ProgramExit(exit_code=0)})
    trees = {tree: store.evidence.tree(tree) for tree in (shell.start, *(turn.tree for turn in turns))}
    blobs = {item.id: store.evidence.read(item.id) for tree in trees.values() for item in tree.values()}
    one.evidence.put([(program, blobs, trees)])
    export(one, ExportRequest("atif", tmp_path / "out"))
    (path,) = (tmp_path / "out" / NAME).iterdir()
    row = taken(other, runtime, path).rows[0]
    assert (row.outcome, row.rollout) == ("recorded", rollout_id(key))
    assert row.notes == ("its calls are an agent program's own: workspaces are compared, outputs are not",)
    assert other.evidence.get_rollout(row.rollout) == program

    def forged(value: Any) -> None:
        value["steps"][1]["extra"]["rover"]["tree"] = value["steps"][2]["extra"]["rover"]["tree"]
        value["extra"]["rover"]["key"]["seed"] += 1
        value["extra"]["rover"]["rollout"] = digest(value["extra"]["rover"]["key"])

    row = taken(other, runtime, edited(path, tmp_path / "x.json", forged)).rows[0]
    assert (row.outcome, row.reason[:26]) == ("differs", "turn 1: it leaves the work")


def test_evidence_of_what_is_no_package_writes_nothing(store: Store, out: Path, tmp_path: Path) -> None:
    one = exported.bare(tmp_path / "one", store)
    found = trajectory_of(atif.read(by_policy(out, "null:echo"), "x"), "x").model_copy(update={"package": ".."})
    trees = {tree: store.evidence.tree(tree) for tree in (found.start, *(turn.tree for turn in found.turns))}
    blobs = {item.id: store.evidence.read(item.id) for tree in trees.values() for item in tree.values()}
    one.evidence.put([(found, blobs, trees)])
    with pytest.raises(PackageError, match="package: String should match"):
        export(one, ExportRequest("atif", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_rollout_of_a_packages_own_solution(runtime: Runtime, tmp_path: Path) -> None:
    """The solution's files, which no trajectory holds, stand where they stood."""
    files = packages.summary_package() | {"demonstrations/solution/solve.sh": b"cat /solution/answer > report.csv\n"}
    files |= {"demonstrations/solution/answer": packages.REPORT}
    one, other = Store.init(tmp_path / "one"), Store.init(tmp_path / "two")
    for made in (one, other):
        with made.write("test") as tx:
            for name, resource in packages.summary_resources().items():
                tx.set_resource(name, tx.tree(resource))
            tx.set_package(NAME, tx.tree(files))
            tx.commit("A package with a solution")
    env = load_env(one, one.package(NAME).tree)
    policy = solution_of(env)
    assert policy is not None
    with Engine(runtime, one.evidence) as engine:
        ((result, verdict),) = engine.run([RolloutRequest(env, policy, 0)])
    export(one, ExportRequest("atif", tmp_path / "out"))
    row = taken(other, runtime, tmp_path / "out").rows[0]
    assert (row.outcome, row.rollout, row.reason) == ("recorded", result.id, "passed")
    assert verdict.outcome == "passed"


def test_a_trajectory_of_another_tool(store: Store, runtime: Runtime, tmp_path: Path) -> None:
    """Offered tools and commands are played, the rest stays in words; the verdict is that of the package here."""
    path = tmp_path / "run.json"
    path.write_text(json.dumps(FOREIGN))
    with pytest.raises(PackageError, match=r"run\.json: extra\.rover: is missing"):
        taken(store, runtime, path)
    row = taken(store, runtime, path, NAME).rows[0]
    assert (row.outcome, row.reason) == ("recorded", "passed")
    assert row.notes == (
        "1 of bash played as shell",
        "1 of browse kept as text: the harness offers no such tool",
        "1 reasoning of a step left out",
        "1 step of the system left out",
        "2 calls played: 1 of 1 outputs as they were recorded",
    )
    recorded = store.evidence.get_rollout(row.rollout)
    assert recorded is not None
    assert recorded.key.policy == "atif:an-agent/2:maker/model-1"
    assert [turn.message for turn in recorded.turns] == [
        'Thinking.\n\nLooking.\n\n[browse {"url": "x"}]\na page', "", "Done."
    ]  # fmt: skip
    assert recorded.turns[0].tokens is not None
    assert recorded.turns[0].tokens.completion == (8, 9)
    assert recorded.usage.completion_tokens == 2
    assert taken(store, runtime, path, NAME).rows[0].outcome == "held"


def test_a_dry_run_reads_and_plays_nothing(store: Store, runtime: Runtime, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({**FOREIGN, "session_id": "another"}))
    before = len(list(store.evidence.ids()))
    assert [row.outcome for row in taken(store, runtime, tmp_path, NAME, dry_run=True).rows] == ["read"]
    assert len(list(store.evidence.ids())) == before


def first_result(value: Any) -> Any:
    return value["steps"][1]["observation"]["results"][0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: v["extra"]["rover"].update(rollout="0" * 64), "extra.rover.rollout: is not the id"),
        (lambda v: v["extra"]["rover"]["key"].update(seed="x"), "extra.rover.key.seed: "),
        (lambda v: v["extra"]["rover"].update(key=3), "extra.rover.key: "),
        (lambda v: v["steps"][1]["extra"]["rover"].pop("tree"), "steps.1.tree: "),
        (lambda v: v["steps"][1].update(source="system", tool_calls=None, llm_call_count=None), "steps.1"),
        (lambda v: v["steps"][1].update(observation=None), "steps.1.observation: has not one result for each call"),
        (lambda v: first_result(v).update(extra={"rover": {"new": 3}}), "observation.results.0.extra.rover.new: "),
        (lambda v: v["extra"]["rover"].update(newer=1), "extra.rover.newer: Extra inputs"),
        (lambda v: first_result(v).update(extra={"rover": {"reads": 3}}), "results.0.extra.rover.reads: "),
        (lambda v: v["extra"]["rover"].update(pruned="0" * 40), "extra.rover.pruned: "),
    ],
)  # fmt: skip
def test_damaged_documents_of_rover_are_one_line(
    store: Store, runtime: Runtime, out: Path, tmp_path: Path, change: Any, words: str
) -> None:
    path = edited(by_policy(out, packages.solution().id), tmp_path / "x.json", change)
    with pytest.raises(PackageError) as error:
        taken(store, runtime, path)
    assert words in error.value.message
    assert error.value.message.startswith("x.json: ")
    assert "\n" not in error.value.message


def test_a_rollout_on_another_version_is_refused(store: Store, runtime: Runtime, out: Path, tmp_path: Path) -> None:
    other = Store.init(tmp_path / "other")
    with other.write("test") as tx:
        for name, files in packages.summary_resources().items():
            tx.set_resource(name, tx.tree(files))
        files = packages.summary_package() | {"task/instruction.md": b"Do nothing.\n"}
        tx.set_package(NAME, tx.tree(files))
        tx.commit("Another task")
    with pytest.raises(PackageError, match=r"extra\.rover\.key: it ran on another task than order-summary has"):
        taken(other, runtime, by_policy(out, "hf:"))
    report = taken(other, runtime, out, keep_going=True)
    assert {row.outcome for row in report.rows} == {"refused"}


def test_harbors_validator_accepts_all(out: Path) -> None:
    python = exported.other_python("ROVER_HARBOR_PYTHON")
    done = subprocess.run([python, "-c", VALIDATE, str(out)], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == len(exported.POLICIES) + 1
    assert all(line.endswith("True []") for line in lines), done.stdout
