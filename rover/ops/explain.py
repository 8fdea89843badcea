"""Why a repair case chose this combination and not that one, from its record alone. Nothing is run again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rover.ops.pointers import Pointer, pointers
from rover.repair.fcr import LETTERS, letters
from rover_store.cases import case_json, find_case
from rover_store.errors import UsageError
from rover_store.ids import BIT
from rover_store.records import Candidate, GateResult, Repair

if TYPE_CHECKING:
    from rover_store.store import Store


@dataclass(frozen=True, slots=True)
class Explained:
    """A case with what each of its parts rests on. `answer` says in a sentence or two what was chosen and why."""

    case: str
    commit: str
    repair: Repair
    answer: str
    findings: tuple[tuple[Pointer, ...], ...]  # in the order of the diagnosis
    proposals: tuple[str, ...]  # a command for each
    combinations: tuple[Combination, ...]  # the control first, then in the order of selection
    joint: str


@dataclass(frozen=True, slots=True)
class Combination:
    """One combination, and why it is or is not the choice."""

    candidate: Candidate
    name: str  # CT; `-` is the package as it is
    why: str
    evidence: tuple[tuple[Pointer, ...], ...]  # in the order of the gates
    commands: tuple[str, ...]

    @property
    def failed(self) -> tuple[GateResult, ...]:
        return tuple(g for g in self.candidate.gates if not g.passed)


def explain(store: Store, word: str, mask: str = "") -> Explained:
    """The case that a word names; with `mask` (`TV`, `10`) that combination alone.

    NotFound for an unknown case, UsageError where several begin like this or where it has no such combination.
    """
    case, commit = find_case(store, word)
    repair = Repair.load(case_json(store, case, commit), f"case {case}")
    chosen = _ordered(repair.candidates)
    if mask:
        chosen = [_only(case, repair, mask)]
    return Explained(
        case,
        commit,
        repair,
        _answer(repair),
        tuple(pointers(store, f.evidence, repair) for f in repair.diagnosis.findings),
        tuple(f"rover show {commit[:12]}:proposals/{p.component}" for p in repair.proposals),
        tuple(_combination(store, repair, c) for c in chosen),
        _joint(repair),
    )


def read_mask(text: str) -> int | None:
    """`TV`, `vt` or `10` as a mask; `-` and `0` are the control. None where it is neither."""
    if text == "-":
        return 0
    if text.isascii() and text.isdigit() and int(text) <= 15:
        return int(text)
    bits = {letter: bit for bit, letter in LETTERS}
    if not re.fullmatch("[CTHV]+", text.upper()) or len(set(text.upper())) != len(text):
        return None
    return sum(bits[letter] for letter in text.upper())


def _only(case: str, repair: Repair, text: str) -> Candidate:
    mask = read_mask(text)
    if mask is None:
        raise UsageError(f"--mask {text!r}: letters of C, T, H and V, as in TV, or a number from 0 to 15")
    found = next((c for c in repair.candidates if c.mask == mask), None)
    if found is None:
        known = ", ".join(letters(c.mask) for c in repair.candidates) or "none"
        raise UsageError(f"{case} has no combination {letters(mask)}", hint=f"it has: {known}")
    return found


def _ordered(candidates: Iterable[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda c: (c.mask != 0, c.status == "conflict", _rank(c)))


def _rank(candidate: Candidate) -> tuple[int, int, int, int]:
    return len(candidate.changed), len(candidate.rebuilt), candidate.cost, candidate.mask


# --- sentences ---------------------------------------------------------------------------------------------
def _answer(repair: Repair) -> str:
    said = {
        "promoted": f"The branch moved to {(repair.promoted or '')[:12]}",
        "review": "The choice waits on a branch of its own for a person",
        "kept": "The package was kept as it is",
        "abstained": "Nothing was changed",
        "undecided": "Nothing was changed, and a person has to decide",
        "dry_run": "Nothing was changed",
    }[repair.outcome]
    return f"{said}: {repair.reason}."


def _joint(repair: Repair) -> str:
    if repair.selected is None or repair.selected.bit_count() < 2:
        return ""
    name = letters(repair.selected)
    if repair.joint is None:
        return f"Whether a part of {name} would do is open: `--exhaustive` tries them all."
    if not repair.joint:
        return f"{name} is not joint: a part of it passes every gate too, with more that changes."
    parts = [c for c in repair.candidates if c.mask and c.mask != repair.selected and not c.mask & ~repair.selected]
    reasons = "; ".join(f"{letters(c.mask)} {_short(c)}" for c in sorted(parts, key=_rank))
    return f"{name} is joint: no part of it passes alone ({reasons})."


def _short(candidate: Candidate) -> str:
    failed = [g.gate for g in candidate.gates if not g.passed]
    return "clashes" if candidate.status == "conflict" else f"fails {', '.join(failed) or 'a gate'}"


def _combination(store: Store, repair: Repair, candidate: Candidate) -> Combination:
    evidence = tuple(pointers(store, g.evidence, repair) for g in candidate.gates)
    return Combination(
        candidate, letters(candidate.mask), _why(repair, candidate), evidence, _commands(repair, candidate)
    )


def _why(repair: Repair, candidate: Candidate) -> str:
    failed = [g for g in candidate.gates if not g.passed]
    reasons = "; ".join(f"{g.gate}: {g.reason}" for g in failed)
    if candidate.status == "conflict":
        return f"not built: its edits do not go together; {'; '.join(g.reason for g in failed)}"
    if candidate.mask == 0:
        return f"the package as it is fails {reasons}" if failed else "the package as it is passes every gate"
    if candidate.mask == repair.selected:
        return _selected(repair, candidate)
    if candidate.status == "rejected":
        return f"fails {reasons}" if failed else "fails a gate that the record does not name"
    chosen = next((c for c in repair.candidates if c.mask == repair.selected), None)
    if candidate.status == "passed" and chosen is not None:
        return f"passes every gate too, but {letters(chosen.mask)} comes first: {_earlier(chosen, candidate)}"
    if candidate.status == "not_run" and chosen is not None:
        return f"not tried: {letters(chosen.mask)} comes first and passed; {_earlier(chosen, candidate)}"
    return {"passed": "passes every gate"}.get(candidate.status, "not tried")


def _selected(repair: Repair, candidate: Candidate) -> str:
    if any(not g.passed for g in repair.confirmation):
        refused = next(g for g in repair.confirmation if not g.passed)
        return f"selected, and then refused by {refused.gate}: {refused.reason}"
    first = all(
        _rank(candidate) < _rank(c) for c in repair.candidates if c.status == "passed" and c.mask != candidate.mask
    )
    return "chosen: the first in the order of selection that passes every gate" if first else "chosen by a person"


def _earlier(chosen: Candidate, other: Candidate) -> str:
    """What of the order of selection tells two candidates apart."""
    names = ("changed versions", "rebuilt nodes", "bytes of change", "the mask")
    for name, less, more in zip(names, _rank(chosen), _rank(other), strict=True):
        if less != more:
            return f"{name} {less} against {more}"
    return "they are the same"


def _commands(repair: Repair, candidate: Candidate) -> tuple[str, ...]:
    if candidate.commit is None:
        return ()
    return (
        f"rover diff {repair.parent[:12]} {candidate.commit[:12]}",
        f"rover show {candidate.commit[:12]}",
    )


def proposed(repair: Repair) -> int:
    """All components that somebody made a proposal for, as a mask."""
    return sum({BIT[p.component] for p in repair.proposals})
