"""package.json after a merge: the edges say honestly what each component was built against.

A component that the merge took from one side keeps that side's pins. One that both sides have alike keeps the pins
that changed. One that is the merge of both has seen a version only where both sides were built against it: where
they differ, a pin that is not the present version stands, so that the component shows as stale until someone checks
it. A merged context is bound to the resources that its context.json lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rover_store.names import COMPONENTS

Edge = dict[str, Any]


class Versions(NamedTuple):
    """Component -> tree on each side, and after the merge."""

    ours: Mapping[str, str]
    theirs: Mapping[str, str]
    merged: Mapping[str, str]


def merge_edges(
    base: list[Edge], ours: list[Edge], theirs: list[Edge], versions: Versions, bound: Mapping[str, str],
    vouched: frozenset[str] = frozenset(),
) -> list[Edge]:  # fmt: skip
    """Edges of the merged package. `bound`: `resources/KIND/NAME` -> tree as the merged context.json lists them.

    Components in `vouched` were settled by a person: they are pinned to what is present.
    """
    names = list(dict.fromkeys((*COMPONENTS, *(e["source"] for e in [*ours, *theirs]))))
    out: list[Edge] = []
    for name in names:
        rows = [{e["target"]: e for e in side if e["source"] == name} for side in (base, ours, theirs)]
        merged = versions.merged.get(name)
        if name not in vouched and merged != versions.theirs.get(name) and merged == versions.ours.get(name):
            out += rows[1].values()
        elif name not in vouched and merged != versions.ours.get(name) and merged == versions.theirs.get(name):
            out += rows[2].values()
        else:
            both = merged == versions.ours.get(name) == versions.theirs.get(name)
            out += _pins(name, rows, versions.merged, bound, both, name in vouched)
    return out


def merge_admission(base: Any, ours: Any, theirs: Any, present: Mapping[str, str]) -> Any:
    """The admission that was held on the merged components; else what changed; else ours, which names its own."""
    for side in (ours, theirs):
        if isinstance(side, dict) and side.get("components") == dict(present):
            return side
    return theirs if ours == base else ours


def _pins(
    name: str, rows: list[dict[str, Edge]], present: Mapping[str, str], bound: Mapping[str, str], both: bool,
    vouched: bool,
) -> list[Edge]:  # fmt: skip
    base, ours, theirs = rows
    rebound = name == "context" and not both
    targets = list(bound) if rebound else list(dict.fromkeys((*ours, *theirs)))
    out = []
    for target in targets:
        b, o, t = base.get(target), ours.get(target), theirs.get(target)
        now = present.get(target) or bound.get(target)
        if rebound or (vouched and now):
            edge = next((e for e in (o, t) if e and e["version"] == now), None)
            out.append(edge or {"source": name, "target": target, "version": now})
        elif (kept := _kept(b, o, t, now, both)) is not None:
            out.append(kept)
    return out


def _kept(base: Edge | None, ours: Edge | None, theirs: Edge | None, now: str | None, both: bool) -> Edge | None:
    if ours is None or theirs is None:
        there = ours or theirs
        return None if there == base else there
    if not both:  # merged of both: it has seen the present version only where both sides had
        return ours if ours["version"] != now else theirs
    if ours == theirs or theirs == base:
        return ours
    if ours == base:
        return theirs
    return theirs if theirs["version"] == now else ours
