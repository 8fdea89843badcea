"""Grades one end state: lays the evidence out in a box, runs the checks there, and makes of them a judgement.

The order is fixed: infrastructure (evidence is readable, regular, within size), then state difference, then
function. Outcomes are states. A check's fault is `verifier_error`, never a score; a rollout that ended with an
infra_error has no score either; one that ended with a policy_error is graded as it stands and never passes.
The reference and the calibration cases are never laid out: calibration grades the reference as an end state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rover.sandbox.protocol import Files, Place, Sandbox
from rover.verify.plan import MAX_FILE_BYTES as MAX_FILE_BYTES
from rover.verify.plan import Graded as Graded
from rover.verify.plan import Part, job_of, plan, remember
from rover.verify.process import LATE, NO_TIME
from rover.verify.program import program_scores
from rover.verify.shown import Memo
from rover_store.records import Criterion, Limits, Outcome, Score, Verdict, Verifier

ENTRY = "rover.verify.inside:grade"
#: Rounding slack of the pass mark.
EPSILON = 1e-9

_OUT_OF_TIME = {LATE, NO_TIME, *(f"the checks broke the {breach} limit" for breach in ("wall", "cpu"))}

#: lends a box that holds some files; for a verifier that is a program also within limits and at a place
Borrow = Callable[..., contextlib.AbstractContextManager[Sandbox]]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict without its keys. `share` is the weighted share in [0, 1], `gate` is G."""

    outcome: Outcome
    share: float | None
    gate: int | None
    scores: tuple[Score, ...]
    reason: str

    def verdict(self, rollout: str, verifier: str, runtime: str) -> Verdict:
        return Verdict(
            rollout=rollout, verifier=verifier, outcome=self.outcome, score=self.share, gate=self.gate,
            scores=self.scores, reason=self.reason, runtime=runtime,
        )  # fmt: skip


def grade(
    box: Sandbox | Borrow,
    verifier: Verifier,
    verifier_files: Files,
    graded: Graded,
    *,
    limits: Limits | None = None,
    memo: Memo | None = None,
    place: Place | None = None,
) -> Judgement:
    """Judge one end state in `box`, whose workspace is replaced. SandboxError where the box itself fails.

    `verifier_files` is the verifier component, path -> bytes. `box` may be what lends one; none is borrowed
    where `memo` knows every score. `place`: where the agent worked, for a verifier that is a program.
    """
    if graded.rollout_end == "infra_error":
        return Judgement("infra_error", None, None, (), graded.error or "the rollout ended with an infra_error")
    scores = run_verifier(box, verifier, verifier_files, graded, limits=limits, memo=memo, place=place)
    return judge(verifier, scores, graded)


def run_verifier(
    box: Sandbox | Borrow,
    verifier: Verifier,
    verifier_files: Files,
    graded: Graded,
    *,
    limits: Limits | None = None,
    memo: Memo | None = None,
    place: Place | None = None,
) -> tuple[Score, ...]:
    """The scores of all criteria: by the program of the verifier where it has one, else by its checks."""
    if verifier.program is not None:
        return program_scores(box, verifier, verifier_files, graded, limits=limits, memo=memo, place=place)
    return run_checks(box, verifier.criteria, verifier_files, graded, limits=limits, memo=memo)


def grade_progress(
    box: Sandbox,
    verifier: Verifier,
    verifier_files: Files,
    graded: Graded,
    *,
    limits: Limits | None = None,
    place: Place | None = None,
) -> dict[str, float | None]:
    """Status of each criterion with progress=True on any intermediate tree; None where its check failed."""
    some = verifier.model_copy(update={"criteria": tuple(c for c in verifier.criteria if c.progress)})
    if not some.criteria:
        return {}
    scores = run_verifier(box, some, verifier_files, graded, limits=limits, place=place)
    return {s.criterion: s.score if s.status == "scored" else None for s in scores}


def judge(verifier: Verifier, scores: tuple[Score, ...], graded: Graded) -> Judgement:
    """The outcome of scores: all critical criteria, G = 1, and the pass weight."""
    errors = [s for s in scores if s.status == "error"]
    if errors:
        return Judgement("verifier_error", None, None, scores, f"{errors[0].criterion}: {errors[0].reason}")
    share, gate = weigh(scores)
    reason = explain(verifier, scores, share)
    if graded.rollout_end == "policy_error":
        return Judgement("policy_error", share, gate, scores, f"{graded.error or 'policy error'}; {reason}")
    return Judgement("passed" if passes(verifier, share, gate) else "failed", share, gate, scores, reason)


def ran_out(scores: tuple[Score, ...]) -> bool:
    """Whether time ran out for some of the checks."""
    return any(s.status == "error" and s.reason in _OUT_OF_TIME for s in scores)


def weigh(scores: tuple[Score, ...]) -> tuple[float, int]:
    """(weighted share in [0, 1], G). A verifier without weight gives nothing."""
    total = sum(s.weight for s in scores)
    share = sum(s.weight * s.score for s in scores) / total if total > 0 else 0.0
    if all(s.score == 1 for s in scores) and total > 0:
        share = 1.0
    return min(1.0, share), int(all(s.score >= 1 for s in scores if s.critical))


def passes(verifier: Verifier, share: float | None, gate: int | None) -> bool:
    """The pass mark, whatever state the rollout ended in."""
    return share is not None and gate == 1 and share >= verifier.pass_weight - EPSILON and share > 0


def explain(verifier: Verifier, scores: tuple[Score, ...], share: float) -> str:
    """One line for a person: what was missed, the critical first."""
    missed = sorted((s for s in scores if s.score < 1), key=lambda s: (not s.critical, -s.weight * (1 - s.score)))
    if not missed:
        return f"all {len(scores)} criteria hold"
    lines = [f"{s.criterion}{' (critical)' if s.critical else ''}: {s.reason}" for s in missed[:3]]
    more = f"; {len(missed) - 3} more" if len(missed) > 3 else ""
    return f"{share:.2f} of the weight (a pass needs {verifier.pass_weight:.2f}); {'; '.join(lines)}{more}"


def run_checks(
    box: Sandbox | Borrow,
    criteria: tuple[Criterion, ...],
    verifier_files: Files,
    graded: Graded,
    *,
    limits: Limits | None = None,
    memo: Memo | None = None,
) -> tuple[Score, ...]:
    """The scores of some criteria, in their order. State criteria run before those of function.

    Each group of criteria with equal evidence is laid out by itself. What `memo` knows is not run again.
    """
    limits = limits or Limits()
    borrow = box if callable(box) else _lent(box)
    todo = plan(criteria, verifier_files, graded, memo)
    found = todo.found
    for parts in todo.calls:
        said = _run(borrow, parts, verifier_files, limits)
        if memo is not None:
            remember(memo, todo.names, said)
        found |= said
    return tuple(_score(c, found.get(c.id, {"error": "the check was not run"})) for c in criteria)


def _run(borrow: Borrow, parts: list[Part], verifier_files: Files, limits: Limits) -> dict[str, Mapping[str, Any]]:
    """What the criteria of some parts say, in one call."""
    first = parts[0].view
    payload = job_of(parts, verifier_files, limits)
    with borrow(layout(first.start, first.end, verifier_files)) as box:
        result = box.call(ENTRY, payload, limits=limits)
    if result.breach or result.error or not isinstance(result.value, list):
        why = f"the checks broke the {result.breach} limit" if result.breach else result.error or "no scores"
        return {c.id: {"error": why} for part in parts for c in part.criteria}
    return {f["criterion"]: f for f in result.value}


def _lent(box: Sandbox) -> Borrow:
    """One box for all groups."""

    @contextlib.contextmanager
    def borrow(files: Files) -> Iterator[Sandbox]:
        box.reset(files)
        yield box

    return borrow


def _score(criterion: Criterion, found: Mapping[str, Any]) -> Score:
    error = found.get("error")
    return Score(
        criterion=criterion.id,
        requirement=criterion.requirement,
        score=0.0 if error else float(found["score"]),
        weight=criterion.weight,
        critical=criterion.critical,
        reason=str(error or found["reason"]),
        status="error" if error else "scored",
    )


def layout(start: Files, end: Files, verifier_files: Files) -> Files:
    """The workspace of a grading box: end/, start/, verifier/ (checks alone; anchors are handed to each check)."""
    out = {f"end/{p}": d for p, d in end.items()}
    out |= {f"start/{p}": d for p, d in start.items()}
    shown = {p: d for p, d in verifier_files.items() if p.startswith("checks/")}
    return out | {f"verifier/{p}": d for p, d in shown.items()}
