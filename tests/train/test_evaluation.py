"""The measures of an evaluation, by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rover_store.errors import PackageError
from rover_train import evaluation
from rover_train.evaluation import EvalRow, Evaluation, measures, pass_all, pass_at


def row(package: str, attempt: int, outcome: str, **more: object) -> EvalRow:
    values = {"score": 1.0 if outcome == "passed" else 0.5, "rollout": f"{package}{attempt}", "workspace": package[0]}
    return EvalRow.model_validate(
        {"package": package, "attempt": attempt, "seed": attempt, "outcome": outcome, **values, **more}
    )


def test_pass_at_k_by_hand():
    """Of 4 rollouts 1 passed: two drawn hold it in 3 of 6 draws; both drawn pass in none."""
    assert pass_at(4, 1, 2) == 0.5
    assert pass_all(4, 1, 2) == 0.0
    assert pass_at(4, 3, 2) == 1.0
    assert pass_all(4, 3, 2) == 0.5
    assert pass_at(3, 0, 3) == 0.0
    assert pass_all(3, 3, 3) == 1.0


def test_errors_leave_every_rate_and_short_packages_leave_large_k():
    rows = [
        *(row("a1", k, o) for k, o in enumerate(("passed", "failed", "policy_error", "failed"))),
        *(row("b1", k, "passed") for k in (0, 3)),
        *(row("b1", k + 1, o, score=None) for k, o in enumerate(("infra_error", "verifier_error"))),
    ]
    found = measures(rows)
    assert found["success"]["value"] == pytest.approx((0.25 + 1.0) / 2)
    assert found["score"]["value"] == pytest.approx((2.5 / 4 + 1.0) / 2)
    assert sorted(found["pass@"]) == ["1", "2", "4"]
    assert found["pass@"]["2"]["value"] == pytest.approx((0.5 + 1.0) / 2)
    assert found["pass@"]["4"]["n"] == 1
    assert found["pass^"]["4"]["value"] == 0.0
    assert found["success"]["clusters"] == 2


def test_nothing_that_counts_has_no_rate():
    found = measures([row("a1", 0, "infra_error", score=None)])
    assert found["success"]["value"] is None


def test_a_record_tells_groups_and_cost_and_can_be_read_again(tmp_path: Path):
    rows = (
        row("a1", 0, "passed", family="edit", difficulty=1, turns=4, tokens=100, seconds=2.0),
        row("a2", 0, "failed", family="edit", difficulty=10, turns=6, tokens=300, reused=True),
        row("b1", 0, "infra_error", score=None, family="memo", turns=1, tokens=7),
    )
    made = Evaluation(revision="5" * 40, policy="p", rows=rows)
    said = made.summary()
    assert said["outcomes"] == {"failed": 1, "infra_error": 1, "passed": 1}
    assert list(said["difficulties"]) == ["1", "10", "unknown"]
    assert said["families"]["edit"]["success"]["value"] == 0.5
    memo = said["families"]["memo"]
    assert (memo["packages"], memo["errors"], memo["success"]["value"]) == (1, 1, None)
    assert said["cost"]["turns"] == 5.0
    assert said["cost"]["tokens_per_pass"] == 400.0
    assert said["cost"]["seconds"] == 2.0
    assert said["reused"] == 1
    file = tmp_path / "e.json"
    file.write_text(made.dump())
    assert evaluation.load(file) == made
    assert json.loads(file.read_text())["summary"] == json.loads(json.dumps(said))
    file.write_text("{}")
    with pytest.raises(PackageError, match="is no evaluation"):
        evaluation.load(file)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("tokens", 10**400, "less than"),
        ("turns", -1, "greater than or equal"),
        ("seed", 10**400, "less than"),
        ("score", float("nan"), "finite"),
        ("score", 1e300, "less than"),
        ("seconds", float("inf"), "finite"),
        ("outcome", "won", "passed"),
    ],
)
def test_values_that_cannot_be_are_refused_with_their_field(tmp_path: Path, field: str, value: object, words: str):
    one = {**row("a1", 0, "passed").model_dump(mode="json"), field: value}
    file = tmp_path / "e.json"
    file.write_text(json.dumps({"revision": "5" * 40, "policy": "p", "rows": [one]}))
    with pytest.raises(PackageError, match=words) as caught:
        evaluation.load(file)
    assert (caught.value.file, caught.value.field, caught.value.exit_code) == (str(file), f"rows.0.{field}", 2)


def test_names_that_cannot_be_written_are_refused(tmp_path: Path):
    file = tmp_path / "e.json"
    file.write_text(json.dumps({"revision": "5" * 40, "policy": "\ud800"}))
    with pytest.raises(PackageError, match="is no evaluation"):
        evaluation.load(file)
