"""Judgements: outcomes, the pass mark, layers, and what a check is shown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from packages import REPORT, runtime, summary_package, summary_resources, with_checks

from rover.rollout.env import Env, env_from_files, reference_state
from rover.sandbox.protocol import Sandbox
from rover.verify.grade import (
    MAX_FILE_BYTES,
    Graded,
    Judgement,
    grade,
    grade_progress,
    judge,
    layout,
    passes,
    weigh,
)
from rover_store.records import Criterion, Score, Verifier


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    kind = runtime()
    box = kind.open({})
    yield box
    box.close()
    kind.close()


@pytest.fixture(scope="module")
def env() -> Env:
    return env_from_files(summary_package(), summary_resources())


def graded(box: Sandbox, env: Env, state: Graded) -> Judgement:
    return grade(box, env.verifier, env.verifier_files, state)


def score(value: float, weight: float = 1.0, *, critical: bool = False, error: bool = False) -> Score:
    return Score(
        criterion="c", requirement="r", score=value, weight=weight, critical=critical, reason="so",
        status="error" if error else "scored",
    )  # fmt: skip


V = Verifier(criteria=(Criterion(id="c", requirement="r", check="checks/main.py:c"),), pass_weight=0.75)
HERE = Graded({}, {})


class TestMark:
    def test_weight_and_gate(self) -> None:
        assert weigh((score(1.0, 3), score(0.0, 1))) == (0.75, 1)
        assert weigh((score(1.0), score(0.99, critical=True)))[1] == 0
        assert weigh(()) == (0.0, 1)
        assert weigh((score(1.0, 0.1), score(1.0, 0.2), score(1.0, 0.7))) == (1.0, 1)

    def test_pass_mark_is_inclusive_and_needs_the_gate(self) -> None:
        assert passes(V, 0.75, 1)
        assert not passes(V, 0.7499, 1)
        assert not passes(V, 1.0, 0)
        assert not passes(V, None, None)

    def test_nothing_passes_without_criteria(self) -> None:
        lax = Verifier(criteria=(), pass_weight=0.0)
        assert judge(lax, (), HERE).outcome == "failed"

    @pytest.mark.parametrize(
        ("scores", "end", "outcome"),
        [
            ((score(1.0),), "completed", "passed"),
            ((score(0.5),), "completed", "failed"),
            ((score(1.0, 9), score(0.0, critical=True)), "completed", "failed"),
            ((score(1.0),), "policy_error", "policy_error"),
            ((score(1.0), score(0.0, error=True)), "completed", "verifier_error"),
            ((score(0.0, error=True),), "policy_error", "verifier_error"),
        ],
    )
    def test_outcomes(self, scores: tuple[Score, ...], end: str, outcome: str) -> None:
        found = judge(V, scores, Graded({}, {}, rollout_end=end, error="ran out of turns"))  # type: ignore[arg-type]
        assert found.outcome == outcome
        if outcome == "verifier_error":
            assert (found.share, found.gate) == (None, None)
        else:
            assert (found.share, found.gate) == weigh(scores)
        if outcome == "policy_error":
            assert found.reason.startswith("ran out of turns")

    def test_an_infrastructure_error_is_not_graded(self, box: Sandbox, env: Env) -> None:
        found = graded(box, env, Graded(env.start, {}, rollout_end="infra_error", error="the box died"))
        assert found == Judgement("infra_error", None, None, (), "the box died")


class TestStates:
    def test_reference_passes(self, box: Sandbox, env: Env) -> None:
        found = graded(box, env, Graded(env.start, reference_state(env)))
        assert (found.outcome, found.share, found.gate) == ("passed", 1.0, 1)
        assert found.reason == "all 6 criteria hold"
        assert [s.criterion for s in found.scores] == [c.id for c in env.verifier.criteria]

    def test_start_fails_with_reasons(self, box: Sandbox, env: Env) -> None:
        found = graded(box, env, Graded(env.start, env.start))
        assert found.outcome == "failed"
        assert found.share == pytest.approx(2 / 7)
        assert {s.reason for s in found.scores if s.score == 0} == {"report.csv does not exist"}
        assert "0.29 of the weight (a pass needs 0.75); total: report.csv does not exist" in found.reason

    def test_a_broken_protected_file_closes_the_gate(self, box: Sandbox, env: Env) -> None:
        state = {**reference_state(env), "notes.md": b"other"}
        found = graded(box, env, Graded(env.start, state))
        assert (found.outcome, found.gate) == ("failed", 0)
        assert "sources (critical): changed but protected: notes.md" in found.reason

    @pytest.mark.parametrize(
        "data", [b"", b"\x00\xff" * 1000, b"a" * 100_000, b"\xff\xfe\x00", b'"' * 5000, b",\n" * 9]
    )
    def test_hostile_deliverables_fail(self, box: Sandbox, env: Env, data: bytes) -> None:
        found = graded(box, env, Graded(env.start, {**env.start, "report.csv": data}))
        assert found.outcome == "failed"
        assert all(s.reason for s in found.scores)

    def test_irregular_deliverables_fail_before_any_check(self, box: Sandbox, env: Env) -> None:
        links = {"report.csv": "is a link, not a file", "orders.csv": "is a FIFO"}
        state = {p: d for p, d in env.start.items() if p != "orders.csv"}
        found = graded(box, env, Graded(env.start, state, irregular=links))
        by = {s.criterion: s for s in found.scores}
        assert by["format"].reason == "report.csv: is a link, not a file"
        assert by["sources"].reason == "orders.csv: is a FIFO"
        assert found.gate == 0

    def test_too_large(self, box: Sandbox, env: Env) -> None:
        found = graded(box, env, Graded(env.start, {**env.start, "report.csv": b" " * (MAX_FILE_BYTES + 1)}))
        assert found.outcome == "failed"
        assert "is too large" in found.scores[2].reason

    def test_planted_modules_are_not_imported(self, box: Sandbox, env: Env) -> None:
        bad = b"raise SystemExit('planted')\n"
        planted = dict.fromkeys(("csv.py", "json.py", "rover_checks.py", "sitecustomize.py"), bad)
        state = {**reference_state(env), **planted}
        found = graded(box, env, Graded(env.start, state))
        assert found.outcome == "passed"
        assert [s.criterion for s in found.scores if s.score < 1] == ["clean"]

    def test_the_same_state_gives_the_same_judgement(self, box: Sandbox, env: Env) -> None:
        state = Graded(env.start, {**env.start, "report.csv": REPORT.replace(b"West", b"Wst")}, "done")
        assert graded(box, env, state) == graded(box, env, state)


class TestChecks:
    def test_what_a_check_sees(self, box: Sandbox) -> None:
        source = """
import os
import rover_checks as rc
from rover.verify import checklib


def shown(ev):
    assert checklib is rc
    assert ev.message == ""  # it declares files alone
    assert ev.paths == ("report.csv",)
    assert ev.files() == (), ev.files()
    assert ev.start_files() == ()
    assert not os.path.exists("start/orders.csv") and not os.path.exists("verifier/anchors.json")
    assert ev.anchor("totals").columns == ("region", "orders", "total")
    assert not os.path.exists("verifier/reference") and not os.path.exists("verifier/cases")
    assert not any(k.lower().startswith("rover") for k in os.environ if k != "ROVER_W"), os.environ
    return 1.0


def boolean(ev):
    return True


def partial(ev):
    return 0.25, "a quarter"


def unreadable(ev):
    return rc.cells_match(rc.table(ev.end("report.csv")), ev.anchor("totals"), ["region"], "total")
"""
        names = ("shown", "boolean", "partial", "unreadable")
        env = env_from_files(with_checks(source, names, paths=("report.csv",)), summary_resources())
        found = graded(box, env, Graded(env.start, env.start, "the last word"))
        assert [(s.score, s.status) for s in found.scores] == [
            (1.0, "scored"), (1.0, "scored"), (0.25, "scored"), (0.0, "scored"),
        ], found  # fmt: skip
        assert found.scores[2].reason == "a quarter"
        assert found.scores[3].reason == "report.csv does not exist"

    def test_progress_on_an_intermediate_tree(self, box: Sandbox, env: Env) -> None:
        half = {**env.start, "report.csv": b"region,orders\nEast,1\nNorth,2\nSouth,2\nWest,9\n"}
        found = grade_progress(box, env.verifier, env.verifier_files, Graded(env.start, half))
        assert found == {"sources": 1.0, "format": pytest.approx(2 / 3), "rows": 1.0, "orders": 0.75, "total": 0.0}

    def test_progress_of_a_crashing_check_is_unsupported(self, box: Sandbox) -> None:
        source = "def one(ev):\n    return 1 / 0\n\n\ndef two(ev):\n    return 0.5\n"
        env = env_from_files(with_checks(source, ("one", "two")), summary_resources())
        found = grade_progress(box, env.verifier, env.verifier_files, Graded(env.start, env.start))
        assert found == {"one": None, "two": 0.5}


def test_layout_holds_no_reference(env: Env) -> None:
    paths = layout(env.start, env.start, env.verifier_files)
    assert {p for p in paths if p.startswith("verifier/")} == {"verifier/checks/main.py"}
