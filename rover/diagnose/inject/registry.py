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
    ("context", ("MissingInput", "ChangedData", "LeakedAnswer")),
    ("task", ("MissingGiven", "RenamedDeliverable")),
    ("harness", ("ToolRemoved", "BudgetTooSmall")),
    (
        "verifier",
        ("LaxVerifier", "StrictVerifier", "WrongAnchor", "UnscoredRequirement", "ExtraDemand", "FlakyVerifier"),
    ),
    ("joint", ("CodeAndTool", "LeakAndLax")),
)

#: sensible pairs and triples over different components; any other one can be named in the same way
_TOGETHER: tuple[tuple[str, ...], ...] = (
    ("missing_given", "tool_removed"),
    ("missing_given", "wrong_anchor"),
    ("leaked_answer", "lax_verifier"),
    ("changed_data", "budget_too_small"),
    ("missing_input", "missing_given"),
    ("leaked_answer", "missing_given", "flaky_verifier"),
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
