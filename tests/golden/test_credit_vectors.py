"""rover_train.credit agrees to 1e-9 with the groups of credit-vectors.json, worked out apart from the project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rover_train.credit import Group, RolloutEvidence, TurnEvidence, scheme, turn_weights

VECTORS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("credit-vectors.json").read_text())


def group(case: dict[str, Any]) -> Group:
    rollouts = tuple(
        RolloutEvidence(
            outcome=r["S_B"],
            gate=r["G"],
            intact=r["H"],
            trace=r["S_A"],
            turns=tuple(
                TurnEvidence(
                    before=tuple(t["before"]),
                    after=tuple(t["after"]),
                    uses=tuple(t["uses"]),
                    cost=t["cost"],
                    tokens=t["tokens"],
                )
                for t in r["turns"]
            ),
        )
        for r in case["rollouts"]
    )
    return Group(tuple(case["criterion_weights"]), rollouts)


def close(wanted: list[Any]) -> Any:
    return pytest.approx(wanted, rel=0, abs=1e-9)


@pytest.mark.parametrize("case", VECTORS, ids=range(len(VECTORS)))
def test_group(case: dict[str, Any]) -> None:
    expected = case["expected"]
    (credit,) = scheme("vtca-grpo", **case["parameters"]).assign([group(case)])
    assert list(credit.rewards) == close(expected["reward"])
    assert list(credit.trajectory) == close(expected["advantage_trajectory"])
    tokens = [[t["tokens"] for t in r["turns"]] for r in case["rollouts"]]
    per_turn = {
        "increment": credit.increments,
        "delta": credit.delta,
        "advantage_turn": credit.turns,
        "token_weight": turn_weights(tokens),
    }
    for field, found in per_turn.items():
        assert len(found) == len(expected[field])
        for ours, wanted in zip(found, expected[field], strict=True):
            assert list(ours) == close(wanted), field


def test_every_parameter_of_the_vectors_is_a_setting() -> None:
    assert {name for case in VECTORS for name in case["parameters"]} == {"lambda", "alpha", "eta", "keep", "eps", "std"}
