"""Grades one end state: lays the evidence out in a box, runs the checks there, and makes of them a judgement.

The order is fixed: infrastructure (evidence is readable, regular, within size), then state difference, then
function. Outcomes are states. A check's fault is `verifier_error`, never a score; a rollout that ended with an
infra_error has no score either; one that ended with a policy_error is graded as it stands and never passes.
The reference and the calibration cases are never laid out: calibration grades the reference as an end state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rover.sandbox.protocol import Files, Sandbox
from rover.verify.shown import Conditions, Memo, Shown, anchors_for, anchors_of, groups
from rover_store.ids import digest
from rover_store.records import Criterion, Limits, Outcome, Score, Verdict, Verifier

ENTRY = "rover.verify.inside:grade"
MAX_FILE_BYTES = 64 << 20
#: Rounding slack of the pass mark.
EPSILON = 1e-9

#: lends a box that holds some files
Borrow = Callable[[Files], contextlib.AbstractContextManager[Sandbox]]
RolloutEnd = Literal["completed", "policy_error", "infra_error"]


@dataclass(frozen=True, slots=True)
class Graded:
    """What is judged: the end state, the start it grew from, and how the rollout ended."""

    start: Files
    end: Files
    message: str = ""
    #: paths of the end state that are no regular files (links, FIFOs, names that cannot be kept) -> reason
    irregular: Mapping[str, str] = field(default_factory=dict)
    rollout_end: RolloutEnd = "completed"
    error: str = ""
    conditions: Conditions = field(default_factory=Conditions)


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
) -> Judgement:
    """Judge one end state in `box`, whose workspace is replaced. SandboxError where the box itself fails.

    `verifier_files` is the verifier component, path -> bytes. `box` may be what lends one; none is borrowed
    where `memo` knows every score.
    """
    if graded.rollout_end == "infra_error":
        return Judgement("infra_error", None, None, (), graded.error or "the rollout ended with an infra_error")
    scores = run_checks(box, verifier.criteria, verifier_files, graded, limits=limits, memo=memo)
    return judge(verifier, scores, graded)


def grade_progress(
    box: Sandbox, verifier: Verifier, verifier_files: Files, graded: Graded, *, limits: Limits | None = None
) -> dict[str, float | None]:
    """Status of each criterion with progress=True on any intermediate tree; None where its check failed."""
    criteria = tuple(c for c in verifier.criteria if c.progress)
    scores = run_checks(box, criteria, verifier_files, graded, limits=limits)
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
    end, irregular = regular(graded)
    whole = Graded(graded.start, end, graded.message, irregular, conditions=graded.conditions)
    anchors = anchors_of(verifier_files)
    found: dict[str, Mapping[str, Any]] = {}
    names: dict[str, str] = {}
    left: dict[Shown, Part] = {}
    for shown, group in groups(criteria).items():
        view = _view(shown, whole)
        if memo is not None:
            keys = _keys(memo, group, verifier_files, anchors, view)
            found |= {name: memo.known[key] for name, key in keys.items() if key in memo.known}
            names |= keys
        todo = [c for c in group if c.id not in found]
        if todo:
            left[shown] = Part(shown, view, todo)
    for parts in together(left):
        said = _run(borrow, parts, verifier_files, anchors, limits)
        if memo is not None:
            memo.known.update({names[name]: dict(value) for name, value in said.items() if "error" not in value})
        found |= said
    return tuple(_score(c, found.get(c.id, {"error": "the check was not run"})) for c in criteria)


@dataclass(frozen=True, slots=True)
class Part:
    """Criteria that are shown the same, and what that is."""

    shown: Shown
    view: Graded
    criteria: list[Criterion]


def together(left: Mapping[Shown, Part]) -> list[list[Part]]:
    """Parts that one call can run one after the other: what sees all, then one that sees less of it.

    What the second is not shown is removed before its checks run, so there can be no third.
    """
    whole = left.get(Shown(None, False))
    rest = [part for part in left.values() if part is not whole]
    if whole is None:
        return [[part] for part in rest]
    second = next((part for part in rest if not part.shown.message), None)
    return [[whole, second] if second else [whole], *([part] for part in rest if part is not second)]


def _view(shown: Shown, whole: Graded) -> Graded:
    return Graded(
        start=shown.files(whole.start),
        end=shown.files(whole.end),
        message=whole.message if shown.message else "",
        irregular=shown.irregular(whole.irregular),
        conditions=whole.conditions,
    )


def _keys(
    memo: Memo, group: list[Criterion], verifier_files: Files, anchors: Mapping[str, Any], graded: Graded
) -> dict[str, str]:
    checks = memo.ids({p: d for p, d in verifier_files.items() if p.startswith("checks/")})
    conditions = [graded.conditions.clock, graded.conditions.seed]
    evidence = [memo.ids(graded.start), memo.ids(graded.end), dict(graded.irregular), graded.message, conditions]
    rests_on = digest([checks, evidence])
    return {c.id: memo.key(c, anchors_for(c, anchors), rests_on) for c in group}


def _run(
    borrow: Borrow,
    parts: list[Part],
    verifier_files: Files,
    anchors: Mapping[str, Any],
    limits: Limits,
) -> dict[str, Mapping[str, Any]]:
    """What the criteria of some parts say, in one call. The first part is shown all that the others are."""
    first = parts[0].view
    payload: dict[str, Any] = {
        "parts": [
            {
                "criteria": [
                    {"id": c.id, "check": c.check, "paths": list(c.paths), "anchors": anchors_for(c, anchors)}
                    for c in part.criteria
                ],
                "irregular": dict(part.view.irregular),
                "start": sorted(part.view.start),
                "end": sorted(part.view.end),
            }
            for part in parts
        ],
        "message": first.message,
        "clock": first.conditions.clock,
        "seed": first.conditions.seed,
        "check_wall_s": max(1.0, limits.wall_s / 3),
        "wall_s": max(1.0, limits.wall_s * 0.8),
    }
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


def regular(graded: Graded) -> tuple[Files, dict[str, str]]:
    """The files of an end state that are within size, and a reason for each of the others."""
    irregular = dict(graded.irregular)
    end = {}
    for path, data in graded.end.items():
        if path in irregular:
            continue
        if len(data) > MAX_FILE_BYTES:
            irregular[path] = f"is too large ({len(data)} bytes, at most {MAX_FILE_BYTES})"
        else:
            end[path] = data
    return end, dict(sorted(irregular.items()))


def layout(start: Files, end: Files, verifier_files: Files) -> Files:
    """The workspace of a grading box: end/, start/, verifier/ (checks alone; anchors are handed to each check)."""
    out = {f"end/{p}": d for p, d in end.items()}
    out |= {f"start/{p}": d for p, d in start.items()}
    shown = {p: d for p, d in verifier_files.items() if p.startswith("checks/")}
    return out | {f"verifier/{p}": d for p, d in shown.items()}
