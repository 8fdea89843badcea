"""The natural cases as a table and as a page: line, symptom, fault, what people did about it and how that went."""

from __future__ import annotations

from textwrap import fill

from rover.bench.natural.case import Natural, Outcome
from rover.bench.natural.make import cases
from rover_store.ids import LETTER

#: how a historical repair turned out, in words
OUTCOMES: dict[Outcome, str] = {
    "right": "right",
    "incomplete": "incomplete: a part of the fault stayed",
    "wrong": "wrong",
    "undone": "undone later",
}
WIDTH = 118
HEADER = ("case", "line", "at fault", "finding", "historical repair")
_HEAD = """# Natural cases: faults that task suites really had

Each case re-creates a fault that was reported in public, as an office package with made-up files and a short history
of commits. The sound form was built first, calibrated and sealed, then broken by hand; where the history of the case
is about drift, the sound form may be its first commit, else it is nowhere in the store. Proposals of the repair that
people made lie beside the suite, below `proposals/CASE/COMPONENT/`; they are replayed apart, and many were wrong.
No probe and no proposer knows these cases.

    rover inject --suite natural --out natural
    rover bench fcr --suite natural
"""


def rows() -> list[tuple[str, int, str, str, str]]:
    """One row for each case, under HEADER."""
    return [
        (c.key, c.line, "+".join(LETTER[x] for x in c.components), ", ".join(k for k, _ in c.expects), c.outcome)
        for c in cases()
    ]


def page() -> str:
    """`rover help natural`."""
    return "\n".join([_HEAD, *(_entry(c) for c in cases())])


def _entry(case: Natural) -> str:
    at = "+".join(LETTER[c] for c in case.components)
    lines = (
        f"**{case.key}** (fault {case.line}, {at}): from {case.source}.",
        f"- Symptom: {case.symptom}.",
        f"- Fault: {case.fault}.",
        f"- Repair then: {case.repair}. It was {OUTCOMES[case.outcome]}.",
    )
    return "\n".join([*(fill(line, WIDTH, subsequent_indent="  ") for line in lines), ""])
