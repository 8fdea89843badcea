"""The kinds of defects by name."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from rover.diagnose.inject.protocol import Injector
from rover_store.errors import NotFound

_KINDS: tuple[tuple[str, str], ...] = (
    ("context", "MissingInput"),
    ("context", "ChangedData"),
    ("context", "LeakedAnswer"),
    ("task", "MissingGiven"),
    ("task", "RenamedDeliverable"),
    ("harness", "ToolRemoved"),
    ("harness", "BudgetTooSmall"),
    ("verifier", "LaxVerifier"),
    ("verifier", "StrictVerifier"),
    ("verifier", "WrongAnchor"),
    ("verifier", "UnscoredRequirement"),
    ("verifier", "ExtraDemand"),
    ("verifier", "FlakyVerifier"),
    ("joint", "CodeAndTool"),
    ("joint", "LeakAndLax"),
)


@cache
def injectors() -> tuple[Injector, ...]:
    """Every kind, in the order of the table."""
    return tuple(getattr(import_module(f"rover.diagnose.inject.{module}"), name)() for module, name in _KINDS)


def injector(kind: str) -> Injector:
    """The injector of this kind. NotFound lists the known ones."""
    for one in injectors():
        if one.kind == kind:
            return one
    raise NotFound("kind of defect", kind, hint=f"known: {', '.join(i.kind for i in injectors())}")
