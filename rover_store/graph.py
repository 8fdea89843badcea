"""The dependency graph over components and resources: closure, order, staleness. Pure: edges in, names out.

A node is `NAME/context`, `NAME/task`, `NAME/harness`, `NAME/verifier` or `resources/KIND/NAME`. An edge
source -> target says that `source` was built against that version of `target`.
The closure of a set is the set and all its transitive dependents; it distributes over union.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from rover_store.errors import StoreError
from rover_store.names import COMPONENTS

#: component -> components that it is built against, unless package.json says otherwise (context: its resources)
DEFAULT: Mapping[str, tuple[str, ...]] = {
    "context": (),
    "task": ("context",),
    "harness": ("context",),
    "verifier": ("context", "task", "harness"),
}


class Dependency(NamedTuple):
    """`source` was built against this version of `target`."""

    source: str
    target: str
    version: str


class Stale(NamedTuple):
    """A component whose dependency moved on. `present` is None where the dependency is gone."""

    package: str
    component: str
    target: str
    recorded: str
    present: str | None


def node(package: str, target: str) -> str:
    """Full name of an edge's end as package.json writes it: a component's, or `resources/KIND/NAME` as it is."""
    return target if target.startswith("resources/") else f"{package}/{target}"


def dependents(nodes: Iterable[str], edges: Iterable[Dependency]) -> list[str]:
    """Direct dependents of some nodes, sorted."""
    wanted = set(nodes)
    return sorted({edge.source for edge in edges if edge.target in wanted} - wanted)


def closure(nodes: Iterable[str], edges: Iterable[Dependency]) -> list[str]:
    """The nodes and every transitive dependent of one of them, sorted."""
    back: dict[str, list[str]] = {}
    for edge in edges:
        back.setdefault(edge.target, []).append(edge.source)
    found = set(nodes)
    waiting = list(found)
    while waiting:
        for source in back.get(waiting.pop(), ()):
            if source not in found:
                found.add(source)
                waiting.append(source)
    return sorted(found)


def order(nodes: Iterable[str], edges: Iterable[Dependency]) -> list[str]:
    """The nodes, each after everything among them that it depends on; ties by name. StoreError names a cycle."""
    wanted = sorted(set(nodes))
    inside = set(wanted)
    sorter: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(wanted, ()))
    for edge in sorted(edges):
        if edge.source in inside and edge.target in inside:
            sorter.add(edge.source, edge.target)
    try:
        sorter.prepare()
    except CycleError as error:
        raise StoreError(f"dependencies form a cycle: {' -> '.join(reversed(error.args[1]))}") from None
    out: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        out += ready
        sorter.done(*ready)
    return out


def stale(edges: Iterable[Dependency], present: Mapping[str, str]) -> list[Stale]:
    """Edges whose target's present version is not the recorded one, sorted."""
    out = []
    for edge in edges:
        now = present.get(edge.target)
        if now != edge.version:
            package, _, component = edge.source.rpartition("/")
            out.append(Stale(package, component, edge.target, edge.version, now))
    return sorted(out, key=stale_order)


def stale_order(edge: Stale) -> tuple[str, int, str, str]:
    """Key that sorts stale edges by package, then C, T, H, V, then target."""
    known = edge.component in COMPONENTS
    return edge.package, COMPONENTS.index(edge.component) if known else len(COMPONENTS), edge.component, edge.target
