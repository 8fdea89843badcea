"""A rollout as text."""

from __future__ import annotations

from rover.rollout.render import render
from rover_store.records import Artifact, Budget, Call, RolloutKey, Score, Trajectory, Turn, Usage, Verdict

KEY = RolloutKey(
    context="c" * 40, task="d" * 40, harness="e" * 40, policy="p", seed=3, budget=Budget(), runtime="r"
)  # fmt: skip
LONG = "".join(f"line {n}\n" for n in range(9))
TURNS = (
    Turn(
        index=0,
        message="I look first.",
        calls=(
            Call(
                id="1", tool="read_file", arguments={"path": "a.txt"}, output=LONG, truncated=True,
                reads=(Artifact(path="a.txt", blob="1" * 40),),
            ),
            Call(
                id="2", tool="shell", arguments={"command": "x"}, status="error",
                output='{"exit_code": 127, "stdout": "one\\ntwo\\n", "stderr": "sh: x: not found\\n"}',
            ),
        ),
        tree="f" * 40,
    ),
    Turn(
        index=1,
        calls=(
            Call(
                id="3", tool="write_file", arguments={"path": "b", "content": "\x1b[31m" + "z" * 300},
                writes=(Artifact(path="b", blob="2" * 40), Artifact(path="gone")),
            ),
        ),
        tree="a" * 40,
    ),
)  # fmt: skip
TRAJECTORY = Trajectory(
    key=KEY, package="pack", start="f" * 40, turns=TURNS, end="policy_error", error="the budget of 2 turns is used up",
    usage=Usage(prompt_tokens=5, completion_tokens=6), irregular={"ff": "not a file, folder or link"},
)  # fmt: skip
VERDICT = Verdict(
    rollout="0" * 64, verifier="9" * 40, outcome="policy_error", score=0.25, gate=0,
    scores=(
        Score(criterion="rows", requirement="rows", score=0.5, weight=2, critical=True, reason="3 of 6 rows " * 9),
        Score(criterion="bad", requirement="x", score=0, weight=1, reason="raised", status="error"),
    ),
)  # fmt: skip

EXPECTED = """\
rollout  0000
package  pack  (context cccccccc, task dddddddd, harness eeeeeeee)
policy   p, seed 3
budget   30 turns, 300 s, 200000 tokens
used     2 turns, 3 calls, 1 with an error, 11 tokens
end      policy_error: the budget of 2 turns is used up

turn 1
  I look first.
  > read_file a.txt
    | line 0
    | line 1
    | line 2
    | line 3
    | line 4
    | line 5
    | … 3 more lines
    (the output was cut)
    read a.txt 11111111
  > shell x
    ! exit 127
    ! one
    ! two
    ! stderr: sh: x: not found

turn 2
"""


def test_it_reads_well() -> None:
    text = render("0000", TRAJECTORY, VERDICT)
    assert text.startswith(EXPECTED)
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    tail = text[len(EXPECTED) :]
    for part in (
        "characters)",
        "wrote b 22222222, gone deleted",
        "workspace is now aaaaaaaaaaaa",
        "left in the workspace: ff (not a file, folder or link)",
        "verdict  policy_error, 0.25 of the weight, gate 0  (verifier 99999999)",
        "   0.50  rows (weight 2 critical): 3 of 6 rows",
        "  error  bad (weight 1): raised",
    ):
        assert part in tail


def test_without_a_verdict_or_turns() -> None:
    bare = Trajectory(key=KEY, package="pack", start="f" * 40, final_message="Nothing to do.")
    text = render("0000", bare)
    assert text.endswith("final message\n  Nothing to do.\n\nverdict  none yet")
