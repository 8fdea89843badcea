"""What a change of the store means for recorded scores: which stay comparable, which are graded or run again.

A rollout is keyed by the ids of C, T and H, a verdict by the rollout and the id of V. So between two revisions

    left, came   the package is in one of them alone (`twin`: the same components under another name)
    run          C, T or H differs: its rollouts run again
    grade        V alone differs: the rollouts that exist are graded again
    stale        nothing of it differs, but a resource it is bound to moved on: its scores stay, it needs a rebuild
    nothing      README, title or edges alone differ
    same         not even those

Only packages that differ are read; the rest is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rover_store import layout
from rover_store.errors import UsageError
from rover_store.graph import Dependency, Stale, node, stale_order
from rover_store.graph_at import GraphAt, ask, stale_edge
from rover_store.index.build import package_json
from rover_store.index.rows import edges_of
from rover_store.names import COMPONENTS

if TYPE_CHECKING:
    from rover_store.evidence_at import Recorded
    from rover_store.objects import Objects
    from rover_store.store import Store

Kind = Literal["left", "came", "run", "grade", "stale", "nothing", "same"]
KINDS: tuple[Kind, ...] = ("left", "came", "run", "grade", "stale", "nothing", "same")
#: what somebody has to look at before a release
ACTION: tuple[Kind, ...] = ("left", "came", "run", "grade", "stale")
RUN = ("context", "task", "harness")


class PackageImpact(NamedTuple):
    """A package that differs, or that a resource left behind. Component ids are those of each side."""

    name: str
    kind: Kind
    changed: tuple[str, ...]
    #: those changed components that no other changed component explains
    causes: tuple[str, ...]
    #: resources that its context is bound to at another version than before
    through: tuple[str, ...]
    stale: tuple[Stale, ...]
    old: dict[str, str]
    new: dict[str, str]
    twin: str = ""


class ResourceImpact(NamedTuple):
    """A resource that differs: how many packages are bound to it, and how many of them are stale on its account."""

    name: str
    old: str | None
    new: str | None
    packages: int
    stale: int


class Impact(NamedTuple):
    """All packages but the untouched ones, which `same` counts. `evidence` is by policy."""

    old: str
    new: str
    packages: tuple[PackageImpact, ...]
    resources: tuple[ResourceImpact, ...]
    same: int
    evidence: tuple[Recorded, ...]

    def counts(self) -> dict[str, int]:
        """Kind -> number of packages."""
        out: dict[str, int] = dict.fromkeys(KINDS, 0)
        for package in self.packages:
            out[package.kind] += 1
        out["same"] = self.same
        return out

    def to_do(self, allow: Iterable[str] = ()) -> bool:
        """Whether a package is of a kind that asks for action and is not allowed."""
        wanted = set(ACTION) - set(allow)
        return any(package.kind in wanted for package in self.packages)


def impact(store: Store, old: str, new: str = "HEAD", pattern: str = "*", *, evidence: bool = True) -> Impact:
    """What it means to go from one revision to another; packages narrowed by a glob on their names.

    Without `evidence` recorded rollouts are not counted: that takes seconds where there are millions.
    """
    a, b = store.commit(old), store.commit(new)
    objects = store.objects
    changes = [c for c in layout.changed_packages(objects, a.tree, b.tree) if fnmatchcase(c.name, pattern)]
    resources = layout.changed_resources(objects, a.tree, b.tree)

    def question(graph: GraphAt) -> tuple[list[PackageImpact], list[ResourceImpact], int, list[Recorded]]:
        from rover_store.evidence_at import recorded

        bound = graph.edges((f"resources/{r.name}" for r in resources), dependents=True)
        present = {f"resources/{r.name}": r.new for r in resources}
        behind = [stale_edge(*e, present[e.target]) for e in bound if e.version != present[e.target]]
        found = _twins([_changed(objects, graph, c) for c in changes])
        found += _left_behind(graph, behind, {c.name for c in changes}, pattern)
        found.sort(key=lambda p: p.name)
        touched = sum(p.kind != "left" for p in found)
        moved = [_resource(r, bound, behind) for r in resources]
        counts = recorded(graph, found, pattern) if evidence else []
        return found, moved, graph.count(pattern) - touched, counts

    found, moved, same, counts = ask(store, b.id, question)
    if pattern != "*" and not (found or same):
        raise UsageError(f"no package of {old} or {new} matches {pattern!r}", hint="`rover list` shows all names")
    return Impact(a.id, b.id, tuple(found), tuple(moved), same, tuple(counts))


def _changed(objects: Objects, graph: GraphAt, change: layout.TreeChange) -> PackageImpact:
    """What became of a package whose tree differs."""
    sides = [dict(layout.entry(objects, change.name, t).components) if t else {} for t in (change.old, change.new)]
    records = [package_json(objects, t) if t else {} for t in (change.old, change.new)]
    changed = tuple(c for c in COMPONENTS if sides[0].get(c) != sides[1].get(c))
    if change.old is None or change.new is None:
        kind: Kind = "came" if change.old is None else "left"
        return PackageImpact(change.name, kind, (), (), (), (), sides[0], sides[1])
    edges = [edges_of(change.name, r) for r in records]
    built = {(e.source, e.target) for e in edges[1]}
    causes = tuple(
        c for c in changed if not any((node(change.name, c), node(change.name, d)) in built for d in changed if d != c)
    )
    bound = [{e.target: e.version for e in side if e.target.startswith("resources/")} for side in edges]
    through = {t for t in bound[0].keys() | bound[1].keys() if bound[0].get(t) != bound[1].get(t)}
    stale = _fresh_stale(change.name, edges, sides, graph.versions(e.target for e in edges[1]))
    if any(c in RUN for c in changed):
        kind = "run"
    elif changed:
        kind = "grade"
    else:
        kind = "stale" if stale else "nothing"
    return PackageImpact(
        change.name, kind, changed, causes or changed, tuple(sorted(through)) if "context" in changed else (),
        stale, sides[0], sides[1],
    )  # fmt: skip


def _fresh_stale(
    name: str, edges: list[list[Dependency]], sides: list[dict[str, str]], present: dict[str, str]
) -> tuple[Stale, ...]:
    """Stale edges of a changed package, without those of which nothing changed: they were stale before."""
    kept = {e for e in edges[0] if sides[0].get(_component(name, e.target)) == sides[1].get(_component(name, e.target))}
    found = [
        stale_edge(e.source, e.target, e.version, present.get(e.target))
        for e in edges[1]
        if present.get(e.target) != e.version and (e not in kept or e.target.startswith("resources/"))
    ]
    return tuple(sorted(found, key=stale_order))


def _component(package: str, target: str) -> str:
    return target.removeprefix(f"{package}/")


def _left_behind(
    graph: GraphAt, behind: Iterable[Stale], changed: set[str], pattern: str
) -> list[PackageImpact]:
    """Packages that did not change, but a resource that they are bound to did."""
    by_package: dict[str, list[Stale]] = {}
    for stale in sorted(behind, key=stale_order):
        if stale.package not in changed and fnmatchcase(stale.package, pattern):
            by_package.setdefault(stale.package, []).append(stale)
    versions = graph.versions(f"{name}/{c}" for name in by_package for c in COMPONENTS)
    out = []
    for name, edges in by_package.items():
        ids: dict[str, str] = {c: versions[f"{name}/{c}"] for c in COMPONENTS if f"{name}/{c}" in versions}
        through = tuple(sorted({e.target for e in edges}))
        out.append(PackageImpact(name, "stale", (), (), through, tuple(edges), ids, ids))
    return out


def _twins(packages: list[PackageImpact]) -> list[PackageImpact]:
    """Name to each other what left and what came with the same components: a rename loses no score."""
    left: dict[tuple[tuple[str, str], ...], str] = {}
    for p in packages:
        if p.kind == "left":
            left.setdefault(tuple(sorted(p.old.items())), p.name)
    pairs: dict[str, str] = {}
    for p in packages:
        twin = left.pop(tuple(sorted(p.new.items())), "") if p.kind == "came" else ""
        if twin:
            pairs |= {p.name: twin, twin: p.name}
    return [p._replace(twin=pairs.get(p.name, "")) for p in packages]


def _resource(change: layout.TreeChange, bound: list[Dependency], behind: list[Stale]) -> ResourceImpact:
    name = f"resources/{change.name}"
    packages = {e.source.rpartition("/")[0] for e in bound if e.target == name}
    stale = {s.package for s in behind if s.target == name}
    return ResourceImpact(name, change.old, change.new, len(packages), len(stale))


def to_json(found: Impact) -> dict[str, Any]:
    """The documented shape of `rover impact --json`."""
    return {
        "old": found.old,
        "new": found.new,
        "counts": found.counts(),
        "packages": [{**p._asdict(), "stale": [s._asdict() for s in p.stale]} for p in found.packages],
        "resources": [r._asdict() for r in found.resources],
        "evidence": [e._asdict() for e in found.evidence],
    }
