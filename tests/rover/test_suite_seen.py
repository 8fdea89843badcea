"""What changed bytes show by themselves, and how a verdict departs from a known truth."""

from __future__ import annotations

import pytest
from packages import CHECKS, INSTRUCTION, NOTES, ORDERS, REPORT, criteria, summary_package, summary_resources

from rover.bench.suites.battery import Battery, Sample, order
from rover.bench.suites.seen import shown
from rover.bench.suites.witness import differs
from rover.diagnose.oracle.contract import State
from rover.harness.tools.workbooks import write
from rover.rollout.env import Env, env_from_files
from rover_store.ids import ComponentName
from rover_store.records import Score, Verdict, Verifier

ROWS = [["East", 1, 310.1], ["North", 2, 219.75], ["South", 2, 125.75], ["West", 1, 1200.0]]
BOOK = write("told.xlsx", None, "Told", ["region", "orders", "total"], ROWS)


def package(**changed: bytes | None) -> Env:
    files = {**summary_package(), **{p: d for p, d in changed.items() if d is not None}}
    return env_from_files({p: d for p, d in files.items() if changed.get(p, b"") is not None}, summary_resources())


def beside(path: str, data: bytes) -> Env:
    return package(**{f"context/files/{path}": data})


def told() -> str:
    return "".join(f"{' '.join(map(str, row))}\n" for row in ROWS)


SHOWN: list[tuple[ComponentName, Env, str]] = [
    ("context", beside("old/report_final.csv", REPORT), "old/report_final.csv holds the reference's report.csv"),
    ("context", beside("n.txt", b"East 1 310.1\nNorth 2 219.75\nSouth 2 125.75\n"),
     "n.txt tells 3 of 4 rows of the answer totals"),
    ("context", beside("told.xlsx", BOOK), "told.xlsx tells 4 of 4 rows of the answer totals"),
    ("context", beside("grader/main.py", CHECKS.encode()), "grader/main.py holds the verifier's checks/main.py"),
    ("context", beside("report.csv", b"region\n"), "the deliverable report.csv lies in the workspace at the start"),
    ("context", beside("orders (2).csv", ORDERS[:-5]),
     "orders (2).csv and orders.csv are copies of one file and differ"),
    ("task", package(**{"task/instruction.md": INSTRUCTION.replace("0.01", "0.5").encode()}),
     "the request says 0.5 where it said 0.01"),
    ("task", package(**{"task/instruction.md": INSTRUCTION.replace(", within 0.01", "").encode()}),
     "the request no longer says 0.01"),
    ("task", package(**{"task/instruction.md": f"{INSTRUCTION}Leave out `West`.\n".encode()}),
     "the request also says `West`"),
    ("task", package(**{"task/instruction.md": INSTRUCTION.replace("for each region", "for each").encode()}),
     "the request no longer says region"),
    ("task", package(**{"task/instruction.md": f"{INSTRUCTION}{told()}".encode()}),
     "the request tells 4 of 4 rows of the answer totals"),
    ("verifier", package(**{"verifier/verifier.json": Verifier(criteria=criteria()[:-1]).dump()}),
     "total is scored by no criterion"),
]  # fmt: skip


@pytest.mark.parametrize(("component", "broken", "words"), SHOWN, ids=[words for *_, words in SHOWN])
def test_bytes_show_a_break(component: ComponentName, broken: Env, words: str) -> None:
    assert shown(component, package(), broken) == words


HARMLESS: list[tuple[ComponentName, Env]] = [
    ("context", package()),
    ("context", beside("minutes.md", b"# Minutes\n\nNorth had 2 visitors.\n")),
    ("context", package(**{"context/files/notes.md": NOTES + b"\nThanks.\n"})),
    ("context", beside("orders (2).csv", ORDERS)),
    ("task", package(**{"task/instruction.md": INSTRUCTION.replace("Summarise", "Please summarise").encode()})),
    ("verifier", package(**{"verifier/checks/main.py": f"{CHECKS}\n# end\n".encode()})),
]


@pytest.mark.parametrize("number", range(len(HARMLESS)))
def test_what_changes_nothing_shows_nothing(number: int) -> None:
    component, env = HARMLESS[number]
    assert shown(component, package(), env) == ""


def verdict(outcome: str, **scores: float) -> Verdict:
    made = [Score(criterion=r, requirement=r, score=s, weight=1.0, reason="") for r, s in scores.items()]
    return Verdict.model_validate({
        "rollout": "0" * 64, "verifier": "0" * 40, "outcome": outcome, "scores": [m.model_dump() for m in made],
        "runtime": "r", "score": 1.0, "gate": 1, "reason": "",
    })  # fmt: skip


RIGHT = Sample("right", State({}), {"a": True, "b": True}, True)
WRONG = Sample("wrong", State({}), {"a": True, "b": False}, False)


@pytest.mark.parametrize(
    ("sample", "said", "words"),
    [
        (RIGHT, verdict("passed", a=1, b=1), ""),
        (WRONG, verdict("failed", a=1, b=0), ""),
        (RIGHT, verdict("failed", a=1, b=0), "b is satisfied, and the verifier says otherwise"),
        (WRONG, verdict("passed", a=1, b=1), "b is broken, and the verifier says otherwise"),
        (WRONG, verdict("passed", a=1), "b is broken, and the verifier says otherwise"),
        (WRONG, verdict("passed", a=1, b=0), "the state now passes"),
        (RIGHT, verdict("failed", a=1, b=1, more=0), "the state is right, and the verifier says otherwise"),
    ],
)
def test_a_verdict_is_held_against_the_truth(sample: Sample, said: Verdict, words: str) -> None:
    assert differs(sample, said) == words


def test_a_battery_comes_back_as_it_was_kept_and_tells_most_first() -> None:
    """Of the wrong states, those that break what is in question alone come first."""
    both = Sample("both", State({"x": b"\x00"}, ("y",), message="m"), {"a": False, "b": False}, False)
    other = Sample("other", State({}), {"a": False, "b": True}, False)
    kept = Battery((RIGHT, other, both, WRONG), 2)
    assert Battery.load(kept.dump()) == kept
    assert [s.id for s in order(kept.samples, frozenset("b"))] == ["right", "wrong", "both", "other"]
    assert both.laid({"y": b"1", "z": b"2"}) == {"x": b"\x00", "z": b"2"}
