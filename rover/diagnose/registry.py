"""The probes, cheapest first, and the question that repair asks again: is the finding gone?"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module

from rover.diagnose.protocol import Probe, ProbeContext
from rover_store.errors import NotFound
from rover_store.records import Finding

#: module below rover.diagnose.probes -> classes in it
_PROBES: tuple[tuple[str, str], ...] = (
    ("static", "Givens"),
    ("static", "Inputs"),
    ("static", "Deliverables"),
    ("static", "Coverage"),
    ("static", "Contradictions"),
    ("static", "Tools"),
    ("static", "Edges"),
    ("hints", "Clock"),
    ("hints", "Readings"),
    ("answers", "AnchorValues"),
    ("answers", "Leaks"),
    ("judging", "StartState"),
    ("judging", "ReferenceState"),
    ("judging", "RecordedCrashes"),
    ("solving", "Replay"),
    ("solving", "NeededTools"),
    ("solving", "Independent"),
    ("hints", "SameScore"),
    ("judging", "CalibrationCases"),
    ("judging", "Attackers"),
)


@cache
def probes() -> tuple[Probe, ...]:
    """Every probe, cheapest first; within one cost in the order of the table."""
    made: list[Probe] = [
        getattr(import_module(f"rover.diagnose.probes.{module}"), name)() for module, name in _PROBES
    ]
    return tuple(sorted(made, key=lambda p: p.cost))


def probe(name: str) -> Probe:
    """The probe of this name. NotFound where there is none."""
    for one in probes():
        if one.name == name:
            return one
    raise NotFound("probe", name)


def still_there(findings: Iterable[Finding], ctx: ProbeContext) -> tuple[Finding, ...]:
    """Ask the probes that raised `findings` again, on the version in `ctx`.

    Returns what they still find of the same kinds; empty means that every finding is resolved. A kind counts
    as a whole: a leak that moved to another file is still a leak.
    """
    kinds = {(f.probe, f.kind) for f in findings}
    asked = {name for name, _ in kinds}
    left: list[Finding] = []
    for one in probes():
        if one.name in asked:
            left += [f for f in one.run(ctx) if (f.probe, f.kind) in kinds]
    return tuple(left)
