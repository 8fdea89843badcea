"""A case in a few lines that a person can read: the message of the case commit."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rover.repair.fcr import letters
from rover_store.ids import BIT
from rover_store.records import Candidate, Repair

_WIDTH = 72


def case_message(repair: Repair) -> str:
    """Subject, reason, what was found, proposed and tried, and how the choice was confirmed."""
    return "\n".join([f"Repair case {repair.case}: {repair.outcome}", "", *_fill(repair.reason), *_body(repair)])


def _body(repair: Repair) -> Iterator[str]:
    confirmed = [f for f in repair.diagnosis.findings if f.status == "confirmed"]
    if confirmed:
        yield from ("", "Found:")
    for finding in confirmed:
        yield from _fill(f"- {finding.kind} ({finding.probe}): {finding.message}")
    if repair.proposals:
        yield from ("", "Proposed:")
    for proposal in repair.proposals:
        yield from _fill(f"- {letters(BIT[proposal.component])}, by {proposal.source}: {proposal.rationale or '-'}")
    tried = [c for c in repair.candidates if c.mask and c.status != "not_run"]
    if tried:
        yield from ("", "Tried:")
    for candidate in tried:
        yield from _fill(f"- {letters(candidate.mask)} {_became(candidate)}")
    if repair.confirmation:
        yield from ("", "Confirmed:" if all(g.passed for g in repair.confirmation) else "Not confirmed:")
    for gate in repair.confirmation:
        yield from _fill(f"- {gate.gate}: {gate.reason}")


def _became(candidate: Candidate) -> str:
    failed = next((g for g in candidate.gates if not g.passed), None)
    if candidate.status == "conflict":
        return f"clashes: {failed.reason}" if failed else "clashes"
    if failed is not None:
        return f"fails {failed.gate}: {failed.reason}"
    return "passes every gate" if candidate.status == "passed" else candidate.status


def _fill(text: str) -> list[str]:
    """One item in lines of a commit message; whatever a file said, it stays one item."""
    plain = " ".join(text.split())
    rest = "  " if plain.startswith("- ") else ""
    return textwrap.wrap(plain, _WIDTH, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)
