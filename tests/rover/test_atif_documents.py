"""ATIF documents by themselves: what is read of one, and that what is none is refused in one line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from exported import FOREIGN

from rover.port.atif import model as atif
from rover.port.atif.foreign import plan_of
from rover_store.errors import PackageError

STEP = {"step_id": 1, "source": "user", "message": "x"}
AGENT = {"name": "a", "version": "1"}


def with_steps(*steps: Any, **more: Any) -> bytes:
    return json.dumps({"agent": AGENT, "steps": steps, **more}).encode()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"[", "f: not valid JSON: EOF"),
        (b"[]", "f: must be a JSON object"),
        (b'{"agent": NaN}', "f: not valid JSON"),
        (b'{"agent": "\\ud800"}', "f: not valid JSON"),
        (b"[" * 300_000, "f: not valid JSON: recursion limit"),
        (with_steps(STEP, schema_version="ATIF-v2.0"), "f: schema_version: 'ATIF-v2.0' is not a version"),
        (with_steps(STEP, schema_version=["x"]), "f: schema_version: "),
        (b'{"steps": []}', "f: agent: Field required"),
        (with_steps(), "f: steps: Tuple should have at least 1 item"),
        (with_steps({**STEP, "step_id": 2}), "f: steps.0.step_id is 2, not 1"),
        (with_steps({**STEP, "reward": 1}), "f: steps.0.reward: Extra inputs"),
        (with_steps({**STEP, "metrics": {}}), "f: steps.0: a step of the user has no metrics"),
        (with_steps({**STEP, "timestamp": "noon"}), "f: steps.0.timestamp: Invalid isoformat"),
        (with_steps({**STEP, "message": [{"type": "image"}]}), "f: steps.0.message.0: a part of type image needs"),
        (with_steps({**STEP, "observation": {"results": [{"source_call_id": "q"}]}}), "is no tool_call_id"),
        (with_steps({**STEP, "source": "agent", "llm_call_count": 0, "metrics": {}}), "has no metrics"),
        (with_steps(STEP, subagent_trajectories=[{"agent": AGENT, "steps": [STEP]}]), "need a trajectory_id each"),
    ],
)  # fmt: skip
def test_bad_documents_are_one_line(data: bytes, words: str) -> None:
    with pytest.raises(PackageError) as error:
        atif.parse(data, "f")
    assert words in error.value.message
    assert "\n" not in error.value.message
    assert len(error.value.message) < 500


def test_turns_that_call_nothing_do_not_end_a_plan() -> None:
    document = atif.Document.model_validate(FOREIGN)
    plan = plan_of(document, ())
    assert [len(move.action.calls) for move in plan.moves] == [0]
    assert plan.told == {"bash": 1, "browse": 1, "write_file": 1}
