"""Probes on a small package: silent where it is sound, and each names what is broken in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from packages import ORDERS, runtime, summary_package, summary_resources

from rover.diagnose.diagnosis import agent_failures, diagnose, explained, suspects
from rover.diagnose.inside import visible
from rover.diagnose.protocol import Probe, ProbeContext, Recorded
from rover.diagnose.registry import probe, probes, still_there
from rover.policy.scripted import ScriptedPolicy
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files, tree_of
from rover.rollout.records import RolloutRequest
from rover_store.errors import NotFound
from rover_store.records import (
    Budget,
    Context,
    ContextFile,
    Finding,
    GivenValue,
    Harness,
    Query,
    Requirement,
    RolloutKey,
    Source,
    ToolCall,
    Trajectory,
    Verdict,
)
from rover_store.records.contract import Answer, ProtectedRule

Files = dict[str, bytes]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    box = runtime()
    with Engine(box) as made:
        yield made
    box.close()


def env_of(changes: dict[str, bytes | None] | None = None, resources: dict[str, Files] | None = None) -> Env:
    files = {**summary_package(), **(changes or {})}
    return env_from_files(
        {p: d for p, d in files.items() if d is not None}, {**summary_resources(), **(resources or {})}
    )


def found(name: str, env: Env, engine: Engine) -> list[tuple[str, str]]:
    return [(f.kind, f.components[0]) for f in probe(name).run(ProbeContext(env, engine))]


def test_every_probe_is_a_probe_with_a_name_of_its_own() -> None:
    names = [p.name for p in probes()]
    assert len(set(names)) == len(names)
    assert all(isinstance(p, Probe) for p in probes())
    costs = [p.cost for p in probes()]
    assert costs == sorted(costs)


def test_an_unknown_probe_is_not_found() -> None:
    with pytest.raises(NotFound):
        probe("tarot")


def test_a_sound_package_silences_every_probe(engine: Engine) -> None:
    ctx = ProbeContext(env_of(), engine)
    assert [f for p in probes() for f in p.run(ctx)] == []


def test_a_diagnosis_of_a_sound_package_says_so(engine: Engine) -> None:
    found = diagnose(ProbeContext(env_of(), engine), only=("givens", "inputs", "anchors", "start"))
    assert (found.verdict, found.findings) == ("sound", ())
    assert found.tree == env_of().tree


# --- static ------------------------------------------------------------------------------------------------
def test_a_file_that_is_gone_is_a_missing_input(engine: Engine) -> None:
    env = env_of({"context/context.json": Context(files=(ContextFile(path="orders.csv"),)).dump()})
    assert found("inputs", env, engine) == [("missing_input", "context")]
    assert found("anchors", env, engine) == []  # said once


def test_a_request_for_another_file_is_a_renamed_deliverable(engine: Engine) -> None:
    text = env_of().instruction.replace("report.csv", "summary.csv")
    assert found("deliverables", env_of({"task/instruction.md": text.encode()}), engine) == [
        ("renamed_deliverable", "task")
    ]


def test_a_request_without_any_file_or_column_lacks_a_given(engine: Engine) -> None:
    text = env_of().instruction.replace("`report.csv`", "a file").replace("`total`", "the money")
    kinds = found("deliverables", env_of({"task/instruction.md": text.encode()}), engine)
    assert kinds == [("missing_given", "task"), ("missing_given", "task")]


def test_a_deliverable_nobody_can_write_lacks_a_tool(engine: Engine) -> None:
    env = env_of({"harness/harness.json": Harness(tools=("read_table", "edit_table")).dump()})
    assert found("tools", env, engine) == [("tool_removed", "harness")]


def test_a_protected_deliverable_is_a_contradiction(engine: Engine) -> None:
    env = env_of()
    more = Requirement(id="frozen", statement="keep it", rule=ProtectedRule(paths=("report.csv",)))
    contract = env.contract.model_copy(update={"requirements": (*env.contract.requirements, more)})
    broken = env_of({"task/contract.json": contract.dump()})
    assert found("contradictions", broken, engine) == [("contradiction", "task")]
    assert ("unscored_requirement", "verifier") in found("coverage", broken, engine)


def test_an_old_version_on_an_edge_is_a_hypothesis_only(engine: Engine) -> None:
    env = env_of({"task/instruction.md": env_of().instruction.encode() + b"\nThank you.\n"})
    findings = probe("edges").run(ProbeContext(env, engine))
    assert [(f.kind, f.status, f.details["subject"]) for f in findings] == [("stale", "hypothesis", "verifier->task")]
    assert diagnose(ProbeContext(env, engine), only=("edges",)).verdict == "sound"


def test_a_resource_that_moved_on_is_stale(engine: Engine) -> None:
    ctx = ProbeContext(env_of(), engine, resources={"files/orders": "0" * 40})
    assert [f.details["target"] for f in probe("edges").run(ctx)] == ["resources/files/orders"]


# --- running -----------------------------------------------------------------------------------------------
def test_data_that_changed_under_an_anchor_is_the_contexts(engine: Engine) -> None:
    changed = {"resource.json": summary_resources()["files/orders"]["resource.json"]}
    changed["files/orders.csv"] = ORDERS.replace(b"80.00", b"81.00")
    env = env_of()
    ref = env.context.resources[0].model_copy(update={"tree": tree_of(changed)})
    context = env.context.model_copy(update={"resources": (ref,)})
    broken = env_of({"context/context.json": context.dump()}, {"files/orders": changed})
    assert found("anchors", broken, engine) == [("changed_data", "context")]


def test_a_wrong_expected_value_is_the_verifiers(engine: Engine) -> None:
    data = env_of().verifier_files["anchors.json"].replace(b"310.1", b"311.1")
    assert found("anchors", env_of({"verifier/anchors.json": data}), engine) == [("wrong_anchor", "verifier")]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("notes/answer.txt", "East 1 310.1\nNorth 2 219.75\nSouth 2 125.75\nWest 1 1200\n"),
        ("old.csv", "region;n;sum\nEast;1;310.10\nNorth;2;219.75\nWest;1;1,200.00\n"),
        ("a.json", '[{"r": "East", "t": 310.1}, {"r": "North", "t": 219.75},\n{"r": "West", "t": 1200}]'),
        ("East 1 310.10, North 2 219.75, West 1 1200.txt", "nothing\n"),
    ],
)
def test_an_answer_in_another_file_is_a_leak(engine: Engine, path: str, text: str) -> None:
    assert found("leaks", env_of({f"context/files/{path}": text.encode()}), engine) == [("leaked_answer", "context")]


def test_an_answer_beside_the_cells_of_a_workbook_is_a_leak(engine: Engine) -> None:
    from io import BytesIO

    from openpyxl import Workbook
    from openpyxl.comments import Comment

    book = Workbook()
    book.active["A1"].comment = Comment("East 1 310.10; North 2 219.75; South 2 125.75; West 1 1200", "x")
    held = BytesIO()
    book.save(held)
    data = held.getvalue()
    assert found("leaks", env_of({"context/files/old.xlsx": data}), engine) == [("leaked_answer", "context")]
    assert found("leaks", env_of({"context/files/old.xlsx": data[:-200]}), engine) == []


@pytest.mark.parametrize(
    "text",
    [
        "East and North grew in 2024, by 3 and 5 percent.\n",
        "region,manager\nEast,Kim\nNorth,Lee\nSouth,Ann\nWest,Bo\n",
        "\n".join(f"{n},{n * 7 % 997 + 0.75}" for n in range(800)),
    ],
)
def test_what_chance_or_the_keys_alone_give_is_no_leak(engine: Engine, text: str) -> None:
    assert found("leaks", env_of({"context/files/other.csv": text.encode()}), engine) == []


def test_a_rounded_value_counts_for_the_digits_that_stand_there(tmp_path: Path) -> None:
    """29.1 among fifty numbers of three digits says little of 29.08; 29.08 itself would."""
    answer = {"columns": ["mean"], "rows": [[29.08]], "keys": 0, "sources": []}
    payload = {"root": str(tmp_path), "files": ["other.csv"], "texts": {}, "answers": {"a": answer}}
    numbers = [f"{n / 10}" for n in range(250, 300)]
    (tmp_path / "other.csv").write_text("\n".join(numbers))
    assert visible(payload) == []
    (tmp_path / "other.csv").write_text("the mean is 29.08\n")
    assert [(h["answer"], h["file"]) for h in visible(payload)] == [("a", "other.csv")]


def test_an_answer_in_the_request_is_a_leak_of_the_task(engine: Engine) -> None:
    text = env_of().instruction + "\nEast 310.1, 1 order.\nNorth 219.75, 2 orders.\nSouth 125.75, 2 orders.\n"
    assert found("leaks", env_of({"task/instruction.md": text.encode()}), engine) == [("leaked_answer", "task")]


def test_a_copy_of_the_reference_is_a_leak_and_stays_one_until_it_is_gone(engine: Engine) -> None:
    data = env_of().verifier_files["reference/files/report.csv"]
    leaky = ProbeContext(env_of({"context/files/final_v2.csv": data}), engine)
    findings = probe("leaks").run(leaky)
    assert [f.details["subject"] for f in findings] == ["final_v2.csv"]
    assert still_there(findings, leaky) == findings
    assert still_there(findings, ProbeContext(env_of(), engine)) == ()


def test_a_verifier_that_crashes_is_a_finding(engine: Engine) -> None:
    source = b"def report_rows(ev):\n    return 1 / 0\n"
    checks = env_of().verifier_files["checks/main.py"] + b"\n\n" + source
    assert found("start", env_of({"verifier/checks/main.py": checks}), engine) == [("verifier_crash", "verifier")]


# --- weighing ------------------------------------------------------------------------------------------------
def finding(probe: str, kind: str, *components: str, status: str = "confirmed", subject: str = "") -> Finding:
    return Finding.model_validate(
        {
            "probe": probe,
            "kind": kind,
            "message": f"{kind} {subject}",
            "components": components or ("verifier",),
            "status": status,
            "evidence": (f"e-{kind}",),
            "details": {"subject": subject} if subject else {},
        }
    )


def test_a_symptom_becomes_evidence_of_its_cause() -> None:
    cause, symptom = finding("givens", "missing_given", "task"), finding("replay", "unsolvable", "task")
    left = explained((cause, symptom))
    assert [f.kind for f in left] == ["missing_given"]
    assert left[0].evidence == ("e-missing_given", "e-unsolvable")


def test_a_symptom_that_nothing_explains_stays() -> None:
    symptom = finding("independent", "strict_verifier")
    hypothesis = finding("edges", "stale", "task", status="hypothesis")
    assert explained((hypothesis, symptom)) == (hypothesis, symptom)


def test_a_hole_in_the_request_does_not_explain_rejected_cases() -> None:
    both = (finding("givens", "missing_given", "task"), finding("cases", "strict_verifier"))
    assert explained(both) == both
    assert suspects(both) == ("task", "verifier")


def test_a_coin_explains_everything_that_it_touches() -> None:
    coin = finding("reference", "flaky_verifier")
    assert [f.kind for f in explained((coin, finding("cases", "lax_verifier")))] == ["flaky_verifier"]


def test_changed_data_explains_that_the_old_reference_no_longer_fits() -> None:
    changed = finding("anchors", "changed_data")
    left = explained((changed, finding("reference", "strict_verifier")))
    assert [(f.kind, f.evidence) for f in left] == [("changed_data", ("e-changed_data", "e-strict_verifier"))]


def recorded(policy: str, outcome: str) -> Recorded:
    key = RolloutKey(
        context="0" * 40, task="0" * 40, harness="0" * 40, policy=policy, seed=1, budget=Budget(), runtime="r"
    )
    trajectory = Trajectory(key=key, package="p", start="0" * 40)
    verdict = Verdict.model_validate({"rollout": "0" * 64, "verifier": "0" * 40, "outcome": outcome})
    return Recorded("0" * 64, trajectory, verdict)


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        (("failed", "passed"), "agent"),
        (("failed",), "undecided"),  # nobody is known to solve it
        (("infra_error",), "infrastructure"),
        (("verifier_error", "passed"), "sound"),
        ((), "sound"),
    ],
)
def test_failures_of_a_sound_package_are_the_agents(engine: Engine, outcomes: tuple[str, ...], verdict: str) -> None:
    rollouts = (recorded("null:echo", "failed"), *(recorded("scripted:x", o) for o in outcomes))
    ctx = ProbeContext(env_of(), engine, recorded=rollouts)
    assert diagnose(ctx, only=("givens",)).verdict == verdict


def test_a_column_may_be_named_in_a_file_that_the_request_cites(engine: Engine) -> None:
    text = env_of().instruction.replace("`total`", "the one that `layout.md` names").encode()
    layout = b"The third column is called `total`.\n"
    silent = env_of({"task/instruction.md": text})
    assert found("deliverables", silent, engine) == [("missing_given", "task")]
    cited = env_of({"task/instruction.md": text, "context/files/layout.md": layout})
    assert found("deliverables", cited, engine) == []


def test_hints_are_hypotheses_and_blame_nothing(engine: Engine) -> None:
    contract = env_of().contract
    total = next(r for r in contract.requirements if r.id == "total")
    other = total.model_copy(update={"id": "again", "rule": total.rule.model_copy(update={"column": "orders"})})
    late = GivenValue(name="until", value="2030-01-01")
    two = contract.model_copy(update={"requirements": (*contract.requirements, other), "givens": (late,)})
    context = env_of().context.model_copy(update={"clock": "2024-03-01"})
    env = env_of({"task/contract.json": two.dump(), "context/context.json": context.dump()})
    assert found("readings", env, engine) == []  # the same answer of the same column, twice
    changed = total.rule.model_copy(update={"value": Answer(answer=Query(source=Source(path="orders.csv")))})
    third = total.model_copy(update={"id": "third", "rule": changed})
    three = two.model_copy(update={"requirements": (*two.requirements, third)})
    env = env_of({"task/contract.json": three.dump(), "context/context.json": context.dump()})
    assert found("readings", env, engine) == [("contradiction", "task")]
    assert found("clock", env, engine) == [("contradiction", "task")]
    assert diagnose(ProbeContext(env, engine), only=("readings", "clock")).verdict == "sound"


def test_the_same_partial_score_for_everybody(engine: Engine) -> None:
    def marked(policy: str, score: float) -> Recorded:
        one = recorded(policy, "failed")
        assert one.verdict is not None
        return Recorded(one.rollout, one.trajectory, one.verdict.model_copy(update={"score": score}))

    same = tuple(marked(f"m{n}", 0.4) for n in range(3))
    another, attacker = marked("m9", 0.5), marked("null:x", 0.9)
    for rollouts, count in ((same, 1), ((*same, another), 0), (same[:2], 0), ((*same, attacker), 1)):
        hints = probe("same_score").run(ProbeContext(env_of(), engine, recorded=rollouts))
        assert [f.status for f in hints] == ["hypothesis"] * count


def test_a_recorded_crash_of_the_verifier_is_a_finding(engine: Engine) -> None:
    """Never the agent's failure; and a verifier that withstands the same state has it no more."""
    source = summary_package()["verifier/checks/main.py"]
    head = b"def report_total(ev):\n"
    crash = b"    assert 'Atlantis' not in ev.end('report.csv').read_text()\n"
    broken = env_of({"verifier/checks/main.py": source.replace(head, head + crash)})
    call = ToolCall(id="1", tool="write_file", arguments={"path": "report.csv", "content": "region\nAtlantis\n"})
    request = RolloutRequest(broken, ScriptedPolicy([(call,)], "Done."), 1)
    ((result, verdict),) = engine.run([request])
    assert verdict.outcome == "verifier_error"
    seen = (Recorded(result.id, result.trajectory, verdict),)
    diagnosis = diagnose(ProbeContext(broken, engine, recorded=seen), only=("recorded",))
    assert diagnosis.verdict == "environment"
    assert [(f.kind, f.evidence) for f in diagnosis.findings] == [("verifier_crash", (result.id,))]
    assert still_there(diagnosis.findings, ProbeContext(broken, engine, recorded=seen))
    assert not still_there(diagnosis.findings, ProbeContext(env_of(), engine, recorded=seen))


def test_an_attacker_that_fails_is_nobodys_mistake() -> None:
    assert agent_failures([recorded("null:echo", "failed"), recorded("m", "infra_error")]) == ()
    assert len(agent_failures([recorded("m", "policy_error")])) == 1
