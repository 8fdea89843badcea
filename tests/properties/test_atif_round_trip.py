"""Any rollout as an ATIF document, as bytes, and back: the same rollout, the same bytes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rover.policy.tokens import TokenLog, Told
from rover.port.atif import model as atif
from rover.port.atif.recorded import trajectory_of
from rover.port.atif.write import document_of
from rover_store.records import Artifact, Budget, Call, Harness, RolloutKey, Trajectory, Turn, Usage

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ODD = st.sampled_from(["[\n1,\n2\n]", "\u2028\x00\ufeff", '"[1,\\n 2]"', "[1, 2]"])
NAMES = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True)
TREE = st.text("0123456789abcdef", min_size=40, max_size=40)
NUMBERS = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT | ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ARTIFACTS = st.lists(st.builds(Artifact, path=TEXT, blob=st.none() | TREE), max_size=2).map(tuple)
CALLS = st.builds(
    Call, id=TEXT, tool=TEXT, arguments=st.dictionaries(TEXT, VALUES, max_size=3),
    status=st.sampled_from(["ok", "error"]),
    output=TEXT | ODD, truncated=st.booleans(), reads=ARTIFACTS, writes=ARTIFACTS,
)  # fmt: skip
IDS = st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple)
LOGPROBS = st.floats(-80, 0).map(lambda p: p + 0.0)


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    policy = draw(st.sampled_from(["solver:x", "openai:m:0", "hf:w:s", "command:a:1", "atif:a/1:m/n", "scripted:0"]))
    log, told = TokenLog(), not policy.startswith(("solver", "scripted")) and draw(st.booleans())
    turns = []
    for index in range(draw(st.integers(0, 4))):
        said = draw(IDS)
        logprobs = tuple(draw(LOGPROBS) for _ in said)
        turns.append(Turn(
            index=index, message=draw(TEXT | ODD), calls=tuple(draw(st.lists(CALLS, max_size=2))), tree=draw(TREE),
            usage=Usage(prompt_tokens=draw(st.integers(0, 9)), completion_tokens=draw(st.integers(0, 9))),
            tokens=log.turn(Told(draw(IDS), said, logprobs)) if told else None,
        ))  # fmt: skip
    key = RolloutKey(
        context=draw(TREE), task=draw(TREE), harness=draw(TREE), policy=policy, seed=draw(st.integers(0, 1 << 60)),
        budget=draw(st.builds(Budget, turns=st.integers(0, 9), seconds=st.floats(0, 9))), runtime=draw(TEXT),
    )  # fmt: skip
    return Trajectory(
        key=key, package=draw(NAMES), start=draw(TREE), turns=tuple(turns), final_message=draw(TEXT),
        end=draw(st.sampled_from(["completed", "policy_error"])), error=draw(TEXT), purpose=draw(st.none() | TEXT),
        irregular=draw(st.none() | st.dictionaries(TEXT, TEXT, max_size=2)),
        retried=draw(st.none() | TEXT),
    )  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(trajectories(), TEXT)
def test_there_and_back(trajectory: Trajectory, instruction: str) -> None:
    data = atif.dump(document_of(trajectory, instruction, Harness(tools=("shell",))))
    document = atif.parse(data, "f")
    assert atif.dump(document) == data
    again = trajectory_of(document, "f")
    assert again == trajectory
    assert again.dump() == trajectory.dump()
    assert document.steps[0].message == instruction
    assert json.loads(data)["schema_version"] == "ATIF-v1.8"
