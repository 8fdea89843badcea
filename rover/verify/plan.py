"""What has to be run for the scores of some criteria on one end state: what is known already, what can share a call.

Pure: nothing here runs a check.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rover.sandbox.protocol import Files
from rover.verify.shown import Conditions, Memo, Shown, anchors_for, anchors_of, groups
from rover_store.ids import digest
from rover_store.records import Criterion, Limits

MAX_FILE_BYTES = 64 << 20

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
    #: for verifiers that are programs: paths of the end state that may be run, None where no mode is known, and
    #: where its links point
    executable: frozenset[str] | None = None
    links: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """Criteria that are shown the same, and what that is."""

    shown: Shown
    view: Graded
    criteria: list[Criterion]
    #: stands for the check files and everything that is shown; empty where nothing is remembered
    rests_on: str = ""


@dataclass(frozen=True, slots=True)
class Todo:
    """What of some criteria is known already, under which names the others are remembered, and what is to be run:
    lists of parts, each list in one call."""

    found: dict[str, Mapping[str, Any]]
    names: dict[str, str]
    calls: list[list[Part]]
    #: all criteria, known or not, by what they are shown
    groups: dict[Shown, Part]


def plan(
    criteria: tuple[Criterion, ...],
    verifier_files: Files,
    graded: Graded,
    memo: Memo | None = None,
    skip: Container[str] = (),
) -> Todo:
    """How to find the scores of some criteria. Names in `skip` are left out: somebody else runs them."""
    end, irregular = regular(graded)
    whole = Graded(graded.start, end, graded.message, irregular, conditions=graded.conditions)
    anchors = anchors_of(verifier_files)
    found: dict[str, Mapping[str, Any]] = {}
    names: dict[str, str] = {}
    left: dict[Shown, Part] = {}
    every: dict[Shown, Part] = {}
    for shown, group in groups(criteria).items():
        view, rests_on = _view(shown, whole), ""
        if memo is not None:
            rests_on = _rests_on(memo, verifier_files, view)
            keys = {c.id: memo.key(c, anchors_for(c, anchors), rests_on) for c in group}
            found |= {name: memo.known[key] for name, key in keys.items() if key in memo.known}
            names |= keys
        todo = [c for c in group if c.id not in found and names.get(c.id) not in skip]
        every[shown] = Part(shown, view, group, rests_on)
        if todo:
            left[shown] = Part(shown, view, todo, rests_on)
    return Todo(found, names, together(left), every)


def remember(memo: Memo, names: Mapping[str, str], said: Mapping[str, Mapping[str, Any]]) -> None:
    """Keep what checks said, failures apart: those are asked again."""
    memo.known.update({names[name]: dict(value) for name, value in said.items() if "error" not in value})


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


def _rests_on(memo: Memo, verifier_files: Files, graded: Graded) -> str:
    checks = memo.ids({p: d for p, d in verifier_files.items() if p.startswith("checks/")})
    conditions = [graded.conditions.clock, graded.conditions.seed]
    evidence = [memo.ids(graded.start), memo.ids(graded.end), dict(graded.irregular), graded.message, conditions]
    return digest([checks, evidence])


def criterion_of(criterion: Criterion, verifier_files: Files) -> dict[str, Any]:
    """What the box is told of a criterion."""
    anchors = anchors_for(criterion, anchors_of(verifier_files))
    return {"id": criterion.id, "check": criterion.check, "paths": list(criterion.paths), "anchors": anchors}


def job_of(parts: list[Part], verifier_files: Files, limits: Limits) -> dict[str, Any]:
    """What the box is told of some parts. The first part is shown all that the others are."""
    first = parts[0].view
    return {
        "parts": [
            {
                "criteria": [criterion_of(c, verifier_files) for c in part.criteria],
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
