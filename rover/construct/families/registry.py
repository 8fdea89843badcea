"""Families by name: the built-in ones, and those that other distributions offer as `rover.families`.

Only the named family is imported. An entry point names an instance (or a class without arguments).
"""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from rover.construct.families.protocol import Family
from rover_store.errors import NotFound, UsageError

GROUP = "rover.families"
BUILT_IN: dict[str, str] = {
    name: f"rover.construct.families.{name}:FAMILY" for name in ("summarise", "edit", "reconcile", "memo")
}
#: families for training, built only where they are named: their tasks are small and made by the hundred
ON_REQUEST: dict[str, str] = {
    "chores": "rover.construct.families.chores:FAMILY",
    "strict_chores": "rover.construct.families.chores:STRICT",
}


def names() -> tuple[str, ...]:
    """Every known family: built-in ones first, then those built on request, then others by name."""
    return (*BUILT_IN, *ON_REQUEST, *sorted(_others()))


def family(name: str) -> Family:
    """The family of that name. NotFound lists the known ones."""
    if name in BUILT_IN or name in ON_REQUEST:
        module, _, attribute = {**BUILT_IN, **ON_REQUEST}[name].partition(":")
        return cast(Family, getattr(importlib.import_module(module), attribute))
    point = _others().get(name)
    if point is None:
        raise NotFound("family", name, hint=f"known: {', '.join(names())}")
    loaded = point.load()
    found = loaded() if isinstance(loaded, type) else loaded
    if not isinstance(found, Family) or found.name != name:
        raise UsageError(f"the entry point {GROUP}:{name} gives no family of that name")
    return found


def installed(name: str | None) -> Family | None:
    """The family that a package names; None where it names none, or one that is not here."""
    return family(name) if name in names() else None


def families(*only: str) -> tuple[Family, ...]:
    """The named families, or all but those built on request."""
    return tuple(family(name) for name in (only or [n for n in names() if n not in ON_REQUEST]))


def _others() -> dict[str, EntryPoint]:
    return {p.name: p for p in entry_points(group=GROUP) if p.name not in BUILT_IN and p.name not in ON_REQUEST}
