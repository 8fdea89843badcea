"""The kinds of defects by name, grouped by what they break."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module

from rover.diagnose.inject.compose import JOINT, compose
from rover.diagnose.inject.protocol import Injector
from rover_store.errors import NotFound

#: module -> classes in it, in the order in which they are listed
_KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("context", ("MissingInput", "MisnamedInput", "ConflictingCopies")),
    ("data", ("ChangedData", "WrongUnit", "OtherFormat", "RenamedColumn", "SharedFault")),
    ("leaks", ("LeakedAnswer", "VerifierReadable")),
    ("starts", ("GoalAtStart", "LeftoverOutput")),
    ("task", ("MissingGiven", "WrongGiven", "WrongUnitTold", "ContractDiffers", "RenamedDeliverable")),
    ("wording", ("ContradictoryRequest", "VagueRequest", "AnswerInRequest", "UnknownTool")),
    ("harness", ("ToolRemoved", "ReaderRemoved", "BudgetTooSmall", "TimeTooShort", "LimitsTooTight")),
    (
        "verifier_strict",
        (
            "StrictVerifier", "StrictOrder", "StrictCase", "StrictFormat", "StrictRounding", "StrictColumns",
            "ExtraDemand", "ImpossibleChecks",
        ),
    ),
    (
        "verifier_lax",
        (
            "LaxVerifier", "LaxSubstring", "LaxTolerance", "PartlyChecked", "StartPasses", "DestructionPasses",
            "WeakPassMark",
        ),
    ),
    (
        "verifier_values",
        (
            "WrongAnchor", "StaleAnchor", "MissingAnchor", "LiteralDiffers", "UnsoundReference", "OldNameRead",
            "UnscoredRequirement",
        ),
    ),
    ("verifier_faults", ("FlakyVerifier", "FlakySample", "FlakyClock", "VerifierCrash", "CrashOnMissing")),
    ("starts", ("ProtectedTarget",)),
    ("wording", ("ForbiddenDeliverable",)),
    ("joint", ("CodeAndTool", "LeakAndLax")),
    ("lost", ("LostInput", "EmptiedInput", "LostGiven")),
)  # fmt: skip

#: sensible pairs and triples over different components; any other one can be named in the same way
_TOGETHER: tuple[tuple[str, ...], ...] = (
    ("missing_given", "tool_removed"),
    ("missing_given", "wrong_anchor"),
    ("missing_given", "strict_format"),
    ("wrong_given", "budget_too_small"),
    ("vague_request", "strict_columns"),
    ("contradictory_request", "limits_too_tight"),
    ("contract_differs", "lax_tolerance"),
    ("leaked_answer", "lax_substring"),
    ("verifier_readable", "start_passes"),
    ("missing_input", "missing_given"),
    ("misnamed_input", "old_name_read"),
    ("changed_data", "budget_too_small"),
    ("stale_anchor", "tool_removed"),
    ("leftover_output", "extra_demand"),
    ("goal_at_start", "weak_pass_mark"),
    ("reader_removed", "verifier_crash"),
    ("time_too_short", "flaky_clock"),
    ("leaked_answer", "missing_given", "flaky_verifier"),
    ("misnamed_input", "tool_removed", "extra_demand"),
    ("wrong_given", "limits_too_tight", "wrong_anchor"),
    ("missing_input", "missing_given", "budget_too_small"),
)


@cache
def singles() -> tuple[Injector, ...]:
    """Every kind that stands for itself, in the order of the table."""
    return tuple(
        getattr(import_module(f"rover.diagnose.inject.{module}"), name)() for module, names in _KINDS for name in names
    )


@cache
def combinations() -> tuple[Injector, ...]:
    """The listed pairs and triples."""
    return tuple(compose(*(_single(k) for k in kinds)) for kinds in _TOGETHER)


def injectors() -> tuple[Injector, ...]:
    """Every kind that stands for itself; pairs and triples are `combinations`."""
    return singles()


def injector(kind: str) -> Injector:
    """The injector of this kind, or of kinds joined by `+`. NotFound lists the known ones."""
    names = kind.split(JOINT)
    found = [_single(name) for name in names]
    return found[0] if len(found) == 1 else compose(*found)


def grouped(kinds: Iterable[Injector]) -> dict[str, list[Injector]]:
    """The kinds by what they break: a component, `several components` or `nothing repairs it`."""
    out: dict[str, list[Injector]] = {g: [] for g in ("context", "task", "harness", "verifier", SEVERAL, LOST)}
    for one in kinds:
        group = LOST if not one.fixable else SEVERAL if len(one.components) > 1 else one.components[0]
        out[group].append(one)
    return {group: found for group, found in out.items() if found}


SEVERAL = "several components"
LOST = "nothing repairs it"


def _single(kind: str) -> Injector:
    for one in singles():
        if one.kind == kind:
            return one
    raise NotFound("kind of defect", kind, hint=f"known: {', '.join(i.kind for i in singles())}")
