"""Evidence of credit from recorded rollouts: use, trace cost, gates, anchors, statuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rover_store.ids import blob_id
from rover_store.records import (
    Artifact,
    Budget,
    Call,
    Criterion,
    RolloutKey,
    Score,
    Trajectory,
    Turn,
    Verdict,
)
from rover_train.credit import RolloutEvidence, evidence_of, group_of
from rover_train.credit.cost import costs
from rover_train.credit.uses import uses
from rover_train.credit.values import words

TASK = "Sum the orders of customer ACME-7 in data/orders.csv and write report.json."


def made(path: str, text: str) -> Artifact:
    return Artifact(path=path, blob=blob_id(text.encode()))


def table(*rows: list[Any], columns: tuple[str, ...] = ("id", "kind")) -> str:
    return json.dumps({"columns": columns, "rows": rows, "total": 4711, "offset": 0})


def call(tool: str, output: str = "", **more: Any) -> Call:
    fields = {k: more.pop(k) for k in ("status", "reads", "writes") if k in more}
    return Call(id="c", tool=tool, arguments=more, output=output, **fields)


def turn(*calls: Call, message: str = "", tree: str = "0" * 40) -> Turn:
    return Turn(index=0, calls=calls, message=message, tree=tree)


def write(path: str, text: str, **more: Any) -> Call:
    return call("write_file", path=path, content=text, writes=(made(path, text),), **more)


# --- use ---------------------------------------------------------------------------------------------------
def test_a_value_of_an_output_was_used() -> None:
    turns = [turn(call("read_table", table(["k1", "Quartz"]), path="a.csv")), turn(write("o.txt", "It is Quartz."))]
    assert uses(turns, TASK) == [(), (0,)]


def test_a_number_is_one_value_however_it_is_written() -> None:
    turns = [
        turn(call("read_file", "total: 1,234.50\n", path="a.txt")),
        turn(call("write_table", path="o.csv", columns=["x"], rows=[[1234.5]], writes=(made("o.csv", "x"),))),
    ]
    assert uses(turns, TASK) == [(), (0,)]


def test_short_values_tell_nothing() -> None:
    """Three characters, two digits (0.05 and 42), truth values, the keys and counters of a tool's answer."""
    turns = [
        turn(call("read_table", table(["abc", 42], [0.05, True], columns=("x", "y")), path="a.csv")),
        turn(write("o.txt", "abc 42 0.05 true rows columns offset 4711")),
    ]
    assert uses(turns, TASK) == [(), ()]


def test_what_the_task_states_is_nobodys() -> None:
    turns = [turn(call("read_file", "ACME-7, data/orders.csv", path="a")), turn(write("report.json", "ACME-7"))]
    assert uses(turns, TASK) == [(), ()]


def test_the_first_turn_that_showed_a_value_is_credited() -> None:
    turns = [
        turn(call("read_file", "Quartz", path="a")),
        turn(call("read_file", "Quartz and Basalt", path="b")),
        turn(write("o.txt", "Quartz")),
        turn(write("p.txt", "Basalt")),
    ]
    assert uses(turns, TASK) == [(), (), (0,), (1,)]


def test_a_cell_is_told_whole_before_its_words() -> None:
    """`North West` stands as such in turn 1 alone; that West stood in turn 0 does not count."""
    turns = [
        turn(call("read_file", "West North", path="a")),
        turn(call("read_table", table(["North West", 1]), path="b.csv")),
        turn(call("edit_table", path="o.csv", where={"id": "North West"}, set={}, writes=(made("o.csv", "x"),))),
        turn(write("o.txt", "somewhere West")),
    ]
    assert uses(turns, TASK) == [(), (), (1,), (0,)]


def test_parts_of_words_are_no_values() -> None:
    turns = [turn(call("read_file", "X1234Y 2024-05-01", path="a")), turn(write("o.txt", "1234 and 2024"))]
    assert uses(turns, TASK) == [(), ()]


def test_keys_of_arguments_name_columns() -> None:
    turns = [
        turn(call("read_table", table(columns=("surface",)), path="a.csv")),
        turn(call("edit_table", path="a.csv", where={"surface": "x"}, set={}, writes=(made("a.csv", "y"),))),
    ]
    assert uses(turns, TASK) == [(), (0,)]


def test_a_version_that_was_written_is_an_input() -> None:
    """Turn 0 writes o.csv, turn 1 edits that version, turn 2 edits turn 1's; a version of the start is nobody's."""

    def edit(before: str, after: str) -> Turn:
        reads, writes = (made("o.csv", before),), (made("o.csv", after),)
        return turn(call("edit_table", path="o.csv", where={"a": 1}, set={"b": 2}, reads=reads, writes=writes))

    turns = [turn(write("o.csv", "1")), edit("1", "2"), edit("2", "3"), edit("of the start", "4")]
    assert uses(turns, TASK) == [(), (0,), (1,), ()]


def test_writing_a_version_again_does_not_make_it_ones_own() -> None:
    reads = (made("o.csv", "1"),)
    turns = [
        turn(write("o.csv", "1")),
        turn(write("o.csv", "1")),
        turn(call("shell", command="sort o.csv > p.csv", reads=reads, writes=(made("p.csv", "2"),))),
    ]
    assert uses(turns, TASK)[2] == (0,)


def test_opening_a_file_is_not_use() -> None:
    """In a turn that wrote, what another of its calls read or asked for does not count."""
    turns = [
        turn(write("o.csv", "1")),
        turn(call("read_file", "zz", path="o.csv", reads=(made("o.csv", "1"),)), write("p.csv", "2")),
    ]
    assert uses(turns, TASK) == [(), ()]


def test_a_last_message_delivers_values() -> None:
    turns = [turn(call("read_file", "Quartz", path="a")), turn(message="The answer is Quartz.")]
    assert uses(turns, TASK) == [(), (0,)]


def test_outputs_of_the_same_turn_are_no_prerequisite() -> None:
    turns = [turn(call("read_file", "Quartz", path="a"), write("o.txt", "Quartz"))]
    assert uses(turns, TASK) == [()]


def test_a_shell_output_is_what_it_printed() -> None:
    said = json.dumps({"exit_code": 0, "stdout": "Quartz\n", "stderr": ""})
    turns = [turn(call("shell", said, command="cat a")), turn(write("o.txt", "Quartz stdout exit_code"))]
    assert uses(turns, TASK) == [(), (0,)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a 1,234,567 b", {"1234567", "234", "567"}),
        ("-12.50", {"12.5", "-12.5"}),
        ("x=data/a-b.csv.", {"data/a-b.csv"}),
        ("100 007 99", {"100"}),
        ("1e400 nan12 infinity", {"1e400", "nan12", "infinity"}),
    ],
)
def test_words(text: str, found: set[str]) -> None:
    assert set(words(text)) == found


# --- trace cost --------------------------------------------------------------------------------------------
def test_errors_and_repetitions_cost() -> None:
    """Turn 0: a read and an error (1). Turn 1: the read again, same answer, same tree (1); the error again (2)."""
    read, wrong = call("read_file", "text", path="a"), call("read_file", "no such file", path="b", status="error")
    turns = [turn(read, wrong, tree="1" * 40), turn(read, wrong, tree="1" * 40)]
    assert costs(turns, "1" * 40) == [1.0, 3.0]


def test_the_same_call_on_another_workspace_is_no_repetition() -> None:
    read = call("read_file", "text", path="a")
    assert costs([turn(read, tree="2" * 40), turn(read, tree="2" * 40)], "1" * 40) == [0.0, 0.0]
    assert costs([turn(read, write("a", "x"), read, tree="2" * 40)], "1" * 40) == [0.0]


def test_a_repetition_with_a_new_answer_is_productive() -> None:
    first, second = (call("shell", said, command="date") for said in ("1", "2"))
    assert costs([turn(first, tree="1" * 40), turn(second, tree="1" * 40), turn(first, tree="1" * 40)], "1" * 40) == [
        0.0,
        0.0,
        1.0,
    ]


# --- the whole ---------------------------------------------------------------------------------------------
CRITERIA = (
    Criterion(id="rows", requirement="rows", check="checks/main.py:rows", weight=3.0, critical=True),
    Criterion(id="protected", requirement="protected", layer="state", check="c.py:p", weight=1.0, critical=True),
    Criterion(id="no-extra", requirement="no-extra", layer="state", check="c.py:n", weight=1.0),
    Criterion(id="style", requirement="style", check="c.py:s", weight=0.0, progress=False),
)


KEY = RolloutKey(context="a" * 40, task="b" * 40, harness="c" * 40, policy="p", seed=1, budget=Budget(), runtime="r")


def evidence(
    scores: tuple[float, ...], statuses: list[tuple[float | None, ...]], *, outcome: str = "failed", **more: Any
) -> RolloutEvidence:
    turns = tuple(turn(call("read_file", f"text {n}", path="a")) for n in range(len(statuses) - 1))
    trajectory = Trajectory(key=KEY, package="one", start="0" * 40, turns=turns)
    found = tuple(
        Score(criterion=c.id, requirement=c.requirement, score=s, weight=c.weight, critical=c.critical)
        for c, s in zip(CRITERIA, scores, strict=True)
    )
    gate = int(all(s.score >= 1 for s in found if s.critical))
    share = sum(s.weight * s.score for s in found) / 5
    verdict = Verdict(
        rollout="d" * 64, verifier="e" * 40, outcome=outcome, score=share, gate=gate, scores=found, **more
    )
    return evidence_of(trajectory, statuses, verdict, CRITERIA, TASK, [5, 7])


START = (0.0, 1.0, 1.0, 1.0)


def test_a_rollout_that_passed() -> None:
    found = evidence((1.0,) * 4, [START, (0.5, 1.0, 1.0, 1.0), (1.0,) * 4], outcome="passed")
    assert (found.outcome, found.gate, found.intact) == (1.0, 1, 1)
    assert [t.before for t in found.turns] == [(0.0, 1.0, 1.0, None), (0.5, 1.0, 1.0, None)]
    assert [t.after for t in found.turns] == [(0.5, 1.0, 1.0, None), (1.0, 1.0, 1.0, None)]
    assert [t.tokens for t in found.turns] == [5, 7]
    assert found.components["criterion-rows"] == 1.0


def test_an_unfinished_rollout_fails_g_and_keeps_h() -> None:
    found = evidence((0.5, 1.0, 1.0, 1.0), [START, (0.5, 1.0, 1.0, 1.0)])
    assert (found.gate, found.intact) == (0, 1)


def test_a_broken_protected_file_fails_g_and_h() -> None:
    found = evidence((1.0, 0.0, 1.0, 1.0), [START, (1.0, 0.0, 1.0, 1.0)])
    assert (found.gate, found.intact) == (0, 0)


def test_a_state_check_that_is_not_critical_fails_neither() -> None:
    found = evidence((1.0, 1.0, 0.0, 1.0), [START, (1.0, 1.0, 0.0, 1.0)])
    assert (found.gate, found.intact) == (1, 1)


def test_a_state_check_that_did_not_hold_at_the_start_is_a_demand() -> None:
    found = evidence((1.0, 0.5, 1.0, 1.0), [(0.0, 0.5, 1.0, 1.0), (1.0, 0.5, 1.0, 1.0)])
    assert (found.gate, found.intact) == (0, 1)


def test_a_state_check_that_cannot_be_told_at_the_start_guards() -> None:
    found = evidence((1.0, 0.5, 1.0, 1.0), [(0.0, None, 1.0, 1.0), (1.0, None, 1.0, 1.0)])
    assert found.intact == 0


def test_anchors_are_the_workspace_and_what_was_seen_last() -> None:
    statuses = [START] * 3
    first, second = evidence((0.0,) * 4, statuses), evidence((1.0,) * 4, statuses)
    assert [t.anchor for t in first.turns] == [t.anchor for t in second.turns]
    assert first.turns[0].anchor != first.turns[1].anchor


def test_a_spoilt_rollout_has_no_reward() -> None:
    trajectory = Trajectory(key=KEY, package="one", start="0" * 40)
    verdict = Verdict(rollout="d" * 64, verifier="e" * 40, outcome="verifier_error")
    with pytest.raises(ValueError, match="outcome verifier_error has no reward"):
        evidence_of(trajectory, [START], verdict, CRITERIA, TASK)


def test_every_tree_has_its_statuses() -> None:
    trajectory = Trajectory(key=KEY, package="one", start="0" * 40)
    verdict = Verdict(rollout="d" * 64, verifier="e" * 40, outcome="failed", score=0.0, gate=0)
    with pytest.raises(ValueError, match="0 turns have 1 trees, not 2"):
        evidence_of(trajectory, [START, START], verdict, CRITERIA, TASK)


def test_weights_of_a_group_are_shares() -> None:
    assert group_of(CRITERIA, []).weights == (0.6, 0.2, 0.2, 0.0)
