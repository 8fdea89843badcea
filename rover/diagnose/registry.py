"""The probes, cheapest first, and the question that repair asks again: is the finding gone?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from rover.diagnose.protocol import Probe, ProbeContext
from rover.harness.loop import Stopped
from rover_store.errors import NotFound, PackageError, RoverError, SandboxError, StoreError
from rover_store.records import Finding

if TYPE_CHECKING:
    from rover.rollout.env import Env

#: module below rover.diagnose.probes -> classes in it
_PROBES: tuple[tuple[str, str], ...] = (
    ("static", "Givens"),
    ("static", "Inputs"),
    ("static", "Deliverables"),
    ("static", "Coverage"),
    ("static", "Contradictions"),
    ("static", "Tools"),
    ("static", "Edges"),
    ("request", "WrongGivens"),
    ("request", "TwoReadings"),
    ("request", "Reading"),
    ("request", "NamedTools"),
    ("workspace", "Misnamed"),
    ("workspace", "Readable"),
    ("workspace", "Leftovers"),
    ("workspace", "Marks"),
    ("hints", "Clock"),
    ("hints", "Readings"),
    ("answers", "AnchorValues"),
    ("data", "Spelling"),
    ("data", "Unit"),
    ("data", "Copies"),
    ("data", "HalfDone"),
    ("answers", "Leaks"),
    ("judging", "StartState"),
    ("judging", "ReferenceState"),
    ("fickle", "Repeated"),
    ("fickle", "Shaken"),
    ("judging", "RecordedCrashes"),
    ("solving", "Replay"),
    ("solving", "NeededTools"),
    ("solving", "Room"),
    ("solving", "LimitsHold"),
    ("solving", "Independent"),
    ("hints", "SameScore"),
    ("judging", "CalibrationCases"),
    ("judging", "Attackers"),
    ("agreement", "Agreement"),
    ("scoring", "PassMark"),
    ("scoring", "Impossible"),
    ("scoring", "Guarded"),
    ("scoring", "CopiedValues"),
    ("scoring", "OldNames"),
    ("program", "OwnSolution"),
    ("program", "SolutionInputs"),
    ("program", "SolutionRoom"),
    ("program", "DeliverableNames"),
    ("program", "LeftOver"),
    ("program", "AnswerInView"),
    ("program", "GradedAgain"),
)
#: probes that look at packages alone whose verifier is a program, and those of the others that say something there
FOR_PROGRAMS = frozenset(
    {
        "own_solution", "solution_inputs", "solution_room", "deliverable_names", "left_over", "answer_in_view",
        "graded_again",
    }
)  # fmt: skip
_ALSO = frozenset(
    {
        "inputs", "edges", "named_tools", "clock", "start", "recorded", "replay", "attackers", "agreement",
        "same_score",
    }
)  # fmt: skip


@cache
def probes() -> tuple[Probe, ...]:
    """Every probe, cheapest first; within one cost in the order of the table."""
    made: list[Probe] = [
        getattr(import_module(f"rover.diagnose.probes.{module}"), name)() for module, name in _PROBES
    ]
    return tuple(sorted(made, key=lambda p: p.cost))


def probes_for(env: Env) -> tuple[Probe, ...]:
    """The probes that can say something of this package, cheapest first: a program leaves most of them nothing."""
    if env.verifier.program is not None:
        return tuple(p for p in probes() if p.name in FOR_PROGRAMS | _ALSO)
    return tuple(p for p in probes() if p.name not in FOR_PROGRAMS)


def probe(name: str) -> Probe:
    """The probe of this name. NotFound where there is none."""
    for one in probes():
        if one.name == name:
            return one
    raise NotFound("probe", name)


def still_there(findings: Sequence[Finding], ctx: ProbeContext) -> tuple[Finding, ...]:
    """Ask the probes that raised `findings` again, on the version in `ctx`.

    Returns what they still find of the same kinds; empty means that every finding is resolved. A kind counts
    as a whole: a leak that moved to another file is still a leak.
    """
    kinds = {(f.probe, f.kind) for f in findings}
    names = {name for name, _ in kinds}
    left: list[Finding] = []
    for one in probes():
        if one.name in names:
            answer, why = asked(one, ctx)
            left += [f for f in answer if (f.probe, f.kind) in kinds]
            if why:  # what cannot be asked again is not gone
                left += [f for f in findings if f.probe == one.name]
    return tuple(left)


def asked(probe: Probe, ctx: ProbeContext, *, forgiving: bool = False) -> tuple[tuple[Finding, ...], str]:
    """What a probe answers, and why it could not where it broke: a package may be hostile.

    Errors of the sandbox are raised unless `forgiving`.
    """
    try:
        return probe.run(ctx), ""
    except (PackageError, StoreError) as error:  # a workspace that no tree can hold, a record that is none
        return (), error.message
    except SandboxError as error:
        if forgiving:
            return (), error.message
        raise
    except (RoverError, Stopped, MemoryError):
        raise
    except Exception as error:
        return (), f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
