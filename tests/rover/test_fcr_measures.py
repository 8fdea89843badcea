"""The measures on cases written out by hand; every expected value is derived beside it."""

from __future__ import annotations

from typing import Any

import pytest

from rover.bench import intervals, measures


def row(
    name: str,
    space: str,
    *,
    label: str = "defect",
    kinds: tuple[str, ...] = ("bad_task",),
    components: tuple[str, ...] = ("task",),
    right: tuple[int, ...] = (2,),
    safe: str = "",
    changed: str = "",
    verdict: str = "environment",
    blamed: tuple[str, ...] = ("task",),
    found: tuple[tuple[str, float], ...] = (("wrong_given", 0.9),),
    mask: int = 2,
    joint: bool | None = None,
    rollouts: int = 30,
) -> dict[str, Any]:
    """A case; `safe` and `changed` are initials of methods: f(cr), a(pply-all), g(reedy), l(ocal-only)."""
    methods = {}
    for method, cost in (("fcr", rollouts), ("apply-all", 10), ("greedy", 15), ("local-only", 10)):
        touched = method[0] in safe + changed
        methods[method] = {
            "mask": mask if touched else 0, "changed": touched, "safe": method[0] in safe, "trace": [],
            "resolved": method[0] in safe, "intent": method[0] in safe, "siblings": True,
            "rollouts": cost, "tokens": 0, "touched": mask if touched else 0,
        }  # fmt: skip
    facts = {
        "id": name, "workspace": space, "label": label, "kinds": list(kinds), "components": list(components),
        "right": list(right), "expects": [{"kind": "wrong_given", "component": "task"}] if kinds else [],
        "package": "p", "runs": [], "note": "",
    }  # fmt: skip
    findings = [{"kind": k, "status": "confirmed", "confidence": c, "components": ["task"]} for k, c in found]
    result = {
        "diagnosis": {
            "verdict": verdict, "findings": findings if verdict == "environment" else [], "blamed": list(blamed),
            "blame": dict.fromkeys(blamed[:1], 0.8) if verdict == "environment" else {},
        },
        "methods": methods, "proposals": [{"component": "task", "source": "rule"}], "selected": mask or None,
        "joint": joint, "rollouts": {"diagnosis": 5, "selection": 8, "confirmation": 5, "all": 18},
        "seconds": {"fcr": 6.0}, "cpu": 5.0, "memory": 80.0, "lattice": [],
    }  # fmt: skip
    return {"facts": facts, "result": result, "error": "", "settings": {}}


BROKE_OFF = {**row("0005", "b"), "result": None, "error": "the worker ended"}
#: five defects in two workspaces: FCR resolves 3, apply-all 1, greedy 2; one broke off
ROWS = [
    row("0001", "a", safe="fa", joint=False),
    row("0002", "a", safe="fg", changed="a", joint=True, mask=10, components=("task", "verifier"), right=(10,)),
    row("0003", "b", safe="f", changed="ag", blamed=("verifier", "task"), joint=False),
    row("0004", "b", safe="g", verdict="sound", blamed=(), mask=8),
    BROKE_OFF,
]
DECOYS = [row("0006", "a", label="decoy", kinds=(), verdict="agent", changed="a", components=(), right=())]


def test_every_defect_is_in_the_denominator() -> None:
    """3 of 5 safely resolved, though one was judged sound and one broke off."""
    found = measures.method([*ROWS, *DECOYS], "fcr")
    assert found["srr"]["value"] == pytest.approx(3 / 5)
    assert (found["srr"]["n"], found["srr"]["clusters"]) == (5, 2)
    assert measures.method(ROWS, "apply-all")["srr"]["value"] == pytest.approx(1 / 5)


def test_what_a_method_does_wrong() -> None:
    """apply-all changes 1, 2 and 3 and is safe on 1: unsafe and of another intent on 2 of 5; it changes the decoy."""
    found = measures.method([*ROWS, *DECOYS], "apply-all")
    assert found["unsafe_change"]["value"] == pytest.approx(2 / 5)
    assert found["intent_change"]["value"] == pytest.approx(2 / 5)
    assert found["regression"]["value"] == 0
    assert found["false_repair"]["value"] == 1
    assert measures.method([*ROWS, *DECOYS], "fcr")["false_repair"]["value"] == 0


def test_a_repair_covers_a_right_one_where_all_of_it_was_changed() -> None:
    """FCR is safe on 1, 2 and 3; with another right repair for the third it leaves a component as it was."""
    assert measures.method(ROWS, "fcr")["srr_covered"]["value"] == pytest.approx(3 / 5)
    half = [*ROWS[:2], row("0003", "b", safe="f", right=(10,)), *ROWS[3:]]
    assert measures.method(half, "fcr")["srr_covered"]["value"] == pytest.approx(2 / 5)
    either = row("1", "a", safe="f", right=(1, 2))
    assert measures.covers(either, "fcr")


def test_kinds_alone_and_in_company() -> None:
    pair = row("2", "a", kinds=("bad_task", "bad_check"), changed="f")
    found = measures.by_kind([row("1", "a", safe="f"), pair, *DECOYS], ("fcr",))
    assert set(found) == {"bad_task", "bad_check", "(one kind)", "(two kinds)", "(decoy)"}
    assert (found["bad_task"]["n"], found["bad_task"]["fcr"]) == (2, 1)
    assert found["bad_task"]["alone"] == {"n": 1, "fcr": 1}
    assert found["bad_check"]["unsafe"] == 1
    assert measures.over_kinds(found) == pytest.approx((1 / 2 + 0) / 2)


def test_cost_is_relative_to_fcr_over_the_cases_that_ended() -> None:
    """Four ended: 4 x 10 rollouts against 4 x 30."""
    assert measures.method(ROWS, "apply-all")["rollouts"]["value"] == pytest.approx(1 / 3)
    assert measures.method(ROWS, "fcr")["rollouts"]["value"] == 1


def test_wins_losses_and_ties() -> None:
    """Against greedy: FCR alone on 1 and 3, greedy alone on 4, both on 2, neither on 5: (2 - 1) / 5."""
    found = measures.versus(ROWS, "greedy")
    assert (found["wins"], found["losses"], found["ties"]) == (2, 1, 2)
    assert found["difference"]["value"] == pytest.approx(0.2)
    assert (found["difference"]["clusters"], found["difference"]["low"]) == (2, None)  # too few for an interval


def test_joint_edits_among_the_resolved() -> None:
    found = measures.joint(ROWS)
    assert found["all"]["value"] == pytest.approx(1 / 3)  # of 1, 2 and 3 only the second
    assert found["combinations"] == {"T": {"resolved": 2, "joint": 0}, "TV": {"resolved": 1, "joint": 1}}
    assert found["pairs"]["TV"] == {"at_fault": 1, "joint": 1}
    assert found["pairs"]["CT"] == {"at_fault": 0, "joint": 0}


def test_blame_and_kind_count_what_nobody_diagnosed_as_wrong() -> None:
    """Blamed rightly: 1 and 2. The third blames the verifier, the fourth is judged sound, the fifth broke off."""
    found = measures.diagnosis(ROWS)
    assert found["component"]["value"] == pytest.approx(2 / 5)
    assert found["verdict"]["value"] == pytest.approx(3 / 5)
    assert found["kind_first"]["value"] == pytest.approx(3 / 5)
    assert found["components"] == {"task": {"task": 1, "verifier": 1, "none": 2}}
    assert found["kinds"] == {"wrong_given": {"wrong_given": 3, "(sound)": 1, "(error)": 1}}


def test_confusion_names_the_first_kind_that_nobody_expected() -> None:
    odd = row("1", "a", found=(("stale_anchor", 0.6), ("flaky_verifier", 0.6)))
    assert measures.diagnosis([odd])["kinds"] == {"wrong_given": {"stale_anchor": 1}}


def test_reliability_by_bins() -> None:
    """Said 0.9 twice and 0.6 once; right, wrong, wrong: gap (2 x |0.9 - 0.5| + 1 x 0.6) / 3."""
    found = measures.binned([(0.9, True), (0.9, False), (0.6, False)])
    assert [(b["n"], b["right"]) for b in found["bins"]] == [(1, 0.0), (2, 0.5)]
    assert found["gap"] == pytest.approx((2 * 0.4 + 0.6) / 3)
    assert found["brier"] == pytest.approx((0.01 + 0.81 + 0.36) / 3)
    assert measures.binned([(1.0, True)])["bins"][0]["n"] == 1


def test_lazy_against_exhaustive() -> None:
    """Selection took 8 rollouts of 32 in each; the second chose something else; only the first had 3 proposals."""
    same, other = row("1", "a", safe="f"), row("2", "b", safe="f")
    same["result"]["proposals"] *= 3
    same["result"]["exhaustive"] = {"selected": 2, "rollouts": 32}
    other["result"]["exhaustive"] = {"selected": 8, "rollouts": 32}
    found = measures.lazy([same, other, BROKE_OFF])
    assert found["differ"] == ["2"]
    assert found["all"]["value"] == pytest.approx(0.25)
    assert (found["deep_cases"], found["deep"]["value"]) == (1, pytest.approx(0.25))


def test_sources_count_what_was_chosen() -> None:
    assert measures.by_source(ROWS)["rule"] == {"proposed": 4, "chosen": 2 + 1, "resolved": 3, "share": 3 / 5}


def test_summary_has_every_part_and_is_plain_json() -> None:
    import json

    found = json.loads(json.dumps(measures.summary([*ROWS, *DECOYS])))
    assert found["errors"] == 1
    assert found["cases"] == {"defect": 5, "decoy": 1}
    assert set(found["methods"]) == {"fcr", "apply-all", "greedy", "local-only"}
    assert found["kinds"]["bad_task"]["fcr"] == 3
    assert found["cost"]["seconds_a_case"] == 6.0


# --- intervals -------------------------------------------------------------------------------------------
def test_clusters_are_drawn_and_not_cases() -> None:
    """Three workspaces, right in a and wrong in two: of three drawn none (8 of 27) or all (1 of 27) are a."""
    names = ["a"] * 10 + ["b"] * 10 + ["c"] * 10
    found = intervals.mean([1.0] * 10 + [0.0] * 20, names)
    assert (found.value, found.low, found.high) == (pytest.approx(1 / 3), 0.0, 1.0)
    spread = intervals.mean([1.0, 0.0] * 15, names)
    assert (spread.low, spread.high) == (0.5, 0.5)  # workspaces agree, however cases differ inside them


def test_agreement_of_all_has_the_exact_bound() -> None:
    """0 of 500: 1 - 0.025^(1/500) = 0.00735."""
    none = intervals.mean([0.0] * 500, ["a", "b"] * 250)
    assert (none.value, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(0.00735, abs=1e-5)
    every = intervals.mean([1.0] * 500, ["a", "b"] * 250)
    assert every.low == pytest.approx(1 - 0.00735, abs=1e-5)


def test_too_few_workspaces_give_no_interval_and_no_case_no_value() -> None:
    for names in (["a", "a"], ["a", "b"]):
        found = intervals.mean([1.0, 0.0], names)
        assert (found.value, found.low, found.high) == (0.5, None, None)
    assert intervals.mean([], []).value is None
    assert intervals.ratio([1.0], [0.0], ["a"]).value is None


def test_intervals_are_the_same_every_time() -> None:
    values, spaces = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0], ["a", "b", "c", "a", "b", "d"]
    assert intervals.mean(values, spaces) == intervals.mean(values, spaces)
