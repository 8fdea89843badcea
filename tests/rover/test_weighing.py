"""What explains what, how findings become blame and confidence, and what a model may add. Nothing runs here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from packages import summary_package, summary_resources

from rover.diagnose.blame import Blame, from_findings, ordered, told_apart
from rover.diagnose.confidence import PRIOR, Seen, confidence, fit, in_verdict, reliability
from rover.diagnose.diagnosis import agent_failures
from rover.diagnose.hypotheses import question, read, with_hypotheses
from rover.diagnose.kinds import KINDS
from rover.diagnose.protocol import Recorded
from rover.diagnose.weighing import explained, reach
from rover.rollout.env import Env, env_from_files
from rover_store.records import Budget, Diagnosis, Finding, RolloutKey, Trajectory, Verdict


def env() -> Env:
    return env_from_files(summary_package(), summary_resources())


def finding(probe: str, kind: str, *components: str, status: str = "confirmed", **details: object) -> Finding:
    return Finding.model_validate(
        {
            "probe": probe,
            "kind": kind,
            "message": f"{kind} of {probe}",
            "components": components or ("verifier",),
            "status": status,
            "evidence": (f"e-{probe}-{kind}",),
            "details": {"subject": kind, **details},
        }
    )


def kinds(findings: tuple[Finding, ...]) -> list[tuple[str, str]]:
    return [(f.probe, f.kind) for f in findings]


# --- explaining ------------------------------------------------------------------------------------------------
def test_a_wrong_value_explains_what_is_held_against_it_and_no_more() -> None:
    wrong = finding("anchors", "wrong_anchor", anchor="totals")
    about = finding("agreement", "strict_verifier", requirements=["rows", "total"])
    assert kinds(explained((wrong, about), env())) == [("anchors", "wrong_anchor")]
    more = finding("agreement", "lax_verifier", requirements=["rows", "clean"])
    left = explained((wrong, more), env())
    assert kinds(left) == [("anchors", "wrong_anchor"), ("agreement", "lax_verifier")]
    assert left[1].details["requirements"] == ["clean"]
    assert left[1].requirement == "clean"


def test_the_exacter_of_two_words_for_one_thing_stays() -> None:
    both = (
        finding("inputs", "missing_input", "context", subject="a.csv"),
        finding("names", "misnamed_input", "context", subject="a.csv", found="b.csv"),
        finding("inputs", "missing_input", "context", subject="c.csv"),
    )
    assert [f.details["subject"] for f in explained(both, env())] == ["a.csv", "c.csv"]
    assert kinds(explained(both, env()))[0] == ("names", "misnamed_input")


def test_what_many_probes_see_of_one_lax_check_is_said_once() -> None:
    seen = (
        finding("cases", "lax_verifier", requirements=["total"]),
        finding("attackers", "lax_verifier"),
        finding("agreement", "lax_verifier", requirements=["total"]),
    )
    left = explained(seen, env())
    assert kinds(left) == [("agreement", "lax_verifier")]
    assert set(left[0].evidence) == {f.evidence[0] for f in seen}


def test_a_crash_over_a_missing_value_is_its_consequence() -> None:
    gone = finding("coverage", "missing_anchor", requirements=["total"])
    crash = finding("reference", "verifier_crash")
    assert kinds(explained((gone, crash), env())) == [("coverage", "missing_anchor")]
    assert kinds(explained((crash,), env())) == [("reference", "verifier_crash")]


def test_how_far_a_cause_reaches() -> None:
    package = env()
    every = {"rows", "orders", "total"}
    assert reach(finding("anchors", "wrong_anchor", anchor="totals"), package) == every
    assert reach(finding("anchors", "changed_data", "context", paths=["orders.csv"]), package) == every
    assert reach(finding("repeated", "flaky_verifier", criteria=["total"]), package) == {"total"}
    assert reach(finding("coverage", "extra_demand", criterion="total"), package) is None


# --- blame ------------------------------------------------------------------------------------------------------
def test_blame_adds_up_and_puts_the_likeliest_first() -> None:
    sure = finding("givens", "missing_given", "task").model_copy(update={"confidence": 0.9})
    two = finding("anchors", "changed_data", "context", "verifier").model_copy(update={"confidence": 0.6})
    hint = finding("edges", "stale", "harness", status="hypothesis")
    blame = from_findings((two, sure, hint))
    assert list(blame) == ["task", "context", "verifier"]
    assert blame["task"] == 0.9
    assert blame["verifier"] < 0.2
    assert list(ordered({"verifier": 0.5, "context": 0.5})) == ["context", "verifier"]


def test_runs_take_suspects_off_a_symptom() -> None:
    symptom = finding("replay", "unsolvable", "task", "harness", "context")
    cause = finding("leaks", "leaked_answer", "context")
    blame = Blame({}, guilty={"harness": "needed"}, cleared={"task": "not needed", "context": "not needed"})
    first, second = told_apart((symptom, cause), blame)
    assert first.components == ("harness",)
    assert first.excludes is not None
    assert any(text.startswith("task:") for text in first.excludes)
    assert second == cause


# --- confidence --------------------------------------------------------------------------------------------------
def test_confidence_follows_what_came_true() -> None:
    rows = [Seen("a", "lax_verifier", "confirmed", True)] * 30 + [Seen("b", "lax_verifier", "confirmed", False)] * 30
    table = fit(rows)
    assert table["counts"] == {"a/lax_verifier/confirmed": [30, 30], "b/lax_verifier/confirmed": [0, 30]}
    assert confidence(finding("a", "lax_verifier"), table) > 0.9
    assert confidence(finding("b", "lax_verifier"), table) < 0.1
    assert 0.4 < confidence(finding("c", "lax_verifier"), table) < 0.6  # by its kind
    assert confidence(finding("c", "x"), {}) == PRIOR["confirmed"]
    assert confidence(finding("c", "x", status="hypothesis"), {}) == PRIOR["hypothesis"]


def test_reliability_holds_claims_against_what_came_true() -> None:
    bins = reliability([(0.95, True), (0.93, False), (0.12, False), (1.0, True)])
    assert [(round(b.low, 1), b.findings, round(b.right, 2)) for b in bins] == [(0.1, 1, 0.0), (0.9, 3, 0.67)]


def test_a_verdict_is_as_sure_as_what_it_rests_on() -> None:
    one = finding("a", "x").model_copy(update={"confidence": 0.5})
    assert in_verdict("environment", (one, one)) == 0.75
    assert in_verdict("sound", (), {"verdicts": {"sound": [96, 96]}}) > 0.98


# --- whose run ---------------------------------------------------------------------------------------------------
class Run(NamedTuple):
    policy: str
    purpose: str | None
    counts: bool


@pytest.mark.parametrize(
    "run",
    [
        Run("solver:edit:demonstrator:1:drop_row", None, True),
        Run("solver:edit:demonstrator:1:drop_row", "admission", False),
        Run("solver:edit:demonstrator:1:drop_row", "replay", False),
        Run("openai:m", None, True),
        Run("null:echo:1", None, False),
    ],
)
def test_only_what_somebody_ran_is_an_agents_failure(run: Run) -> None:
    key = RolloutKey(
        context="0" * 40, task="0" * 40, harness="0" * 40, policy=run.policy, seed=1, budget=Budget(), runtime="r"
    )
    trajectory = Trajectory(key=key, package="p", start="0" * 40, purpose=run.purpose)
    verdict = Verdict(rollout="0" * 64, verifier="0" * 40, outcome="failed")
    assert bool(agent_failures([Recorded("0" * 64, trajectory, verdict)])) is run.counts


# --- a model's hypotheses -----------------------------------------------------------------------------------------
class Answer(NamedTuple):
    text: str


@dataclass
class Parrot:
    """Says one thing, and remembers what it was asked."""

    text: str
    model: str = "parrot"
    asked: str = ""

    def ask(self, system: str, words: str, tokens: int) -> Answer:
        self.asked = system + words
        return Answer(self.text)


def test_a_model_adds_hypotheses_and_overrules_nothing() -> None:
    known = finding("givens", "missing_given", "task")
    found = Diagnosis(package="p", tree="0" * 40, verdict="sound", findings=(known,))
    claims = [
        {"kind": "missing_given", "component": "task", "why": "known already"},
        {"kind": "lax_verifier", "component": "verifier", "why": "looks for a word"},
        {"kind": "bad_luck", "component": "verifier", "why": "no such kind"},
        {"kind": "lax_verifier", "component": "moon", "why": "no such component"},
        "not even a claim",
    ]
    said = Parrot("Here you are: " + json.dumps({"hypotheses": claims[:4]}))
    after = with_hypotheses(env(), found, said)
    assert [(f.kind, f.status) for f in after.findings] == [
        ("missing_given", "confirmed"), ("lax_verifier", "hypothesis"),
    ]  # fmt: skip
    assert after.verdict == "sound"
    assert "219.75" not in said.asked  # no expected value is shown


@pytest.mark.parametrize("text", ["", "no idea", "{", '{"hypotheses": 7}', "[1, 2]", '{"hypotheses": [7]}'])
def test_an_answer_that_cannot_be_read_adds_nothing(text: str) -> None:
    assert read(text, "m") == ()


def test_a_question_is_bounded_and_names_every_kind() -> None:
    found = Diagnosis(package="p", tree="0" * 40, verdict="sound")
    words = question(env(), found)
    assert all(k.name in words for k in KINDS)
    assert len(words) < 60_000
