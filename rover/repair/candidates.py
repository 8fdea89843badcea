"""Candidates: what each combination of the frozen proposals makes of the package and its siblings.

Everything happens in memory: replaced components and resources, the rebuild of all dependents in their order
with early cut-off, the edges in package.json, the cost. Nothing is stored before a lattice is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rover.diagnose.demands import contract_sources
from rover.repair import fcr
from rover.repair.proposals.protocol import Draft
from rover.rollout.env import Env, below, env_from_files, tree_of
from rover_store.errors import PackageError
from rover_store.graph import DEFAULT, Dependency, node
from rover_store.ids import BIT, COMPONENTS, ComponentName, blob_id
from rover_store.records import Context, Edge, Package, Proposal, ResourceChange

Files = Mapping[str, bytes]
#: makes the derived files of a verifier again for the env's C, T and H: the whole verifier component;
#: PackageError where that cannot be done
RebuildVerifier = Callable[[Env], Files]


@dataclass(frozen=True)
class Parent:
    """The revision that a case starts from: the package and its siblings, each with the resources it is bound to."""

    commit: str
    name: str
    envs: Mapping[str, Env]
    present: Mapping[str, str] = field(default_factory=dict)  # `files/orders` -> its tree in the revision

    @property
    def env(self) -> Env:
        return self.envs[self.name]

    @cached_property
    def edges(self) -> tuple[Dependency, ...]:
        """Dependencies of all packages here; the default ones where a component records none."""
        return tuple(edge for name, env in sorted(self.envs.items()) for edge in _edges(name, env))


@dataclass(frozen=True)
class Frozen:
    """A proposal as it is frozen: the record, and the files that it stands for."""

    record: Proposal
    draft: Draft


@dataclass(frozen=True)
class Built:
    """A combination, expanded and rebuilt. `failure` says what could not be made again."""

    mask: int
    packages: Mapping[str, Files]  # changed packages only: the package itself, siblings
    resources: Mapping[str, Files]  # replaced and new resources only: `files/orders` -> resource.json, files/...
    expansion: fcr.Expansion
    cost: int
    env: Env
    siblings: Mapping[str, Env] = field(default_factory=dict)
    failure: str = ""

    @property
    def option(self) -> fcr.Option:
        return fcr.Option(self.mask, self.expansion, self.cost)


def freeze(draft: Draft) -> Frozen:
    """Fix a draft. The ids of the resources that it replaces are written into context.json."""
    files = dict(draft.files)
    trees = {name: tree_of(content) for name, content in draft.resources.items()}
    if trees:
        if draft.component != "context":
            raise PackageError("proposal", "resources", "only a context proposal may replace resources")
        files["context.json"] = _repinned(files["context.json"], trees)
    changes = [ResourceChange(kind=_kind(n), name=n.partition("/")[2], tree=t) for n, t in sorted(trees.items())]
    record = Proposal(
        component=draft.component,
        tree=tree_of(files),
        resources=tuple(changes),
        source=draft.source,
        rationale=draft.rationale,
        needs=draft.needs,
        writes=draft.writes,
        proposer=draft.proposer or None,
        style=draft.style or None,
    )
    return Frozen(record, Draft(**{**draft.__dict__, "files": files}))


class Builder:
    """Builds the combinations of one case."""

    def __init__(self, parent: Parent, proposals: Sequence[Frozen], rebuild: RebuildVerifier) -> None:
        self.parent = parent
        self.by_bit = {BIT[p.record.component]: p for p in proposals}
        self._rebuild = rebuild
        self._verifiers: dict[tuple[str, str, str, str], Files | PackageError] = {}

    @property
    def proposed(self) -> int:
        return sum(self.by_bit)

    def chosen(self, mask: int) -> list[Frozen]:
        return [proposal for bit, proposal in sorted(self.by_bit.items()) if mask & bit]

    def control(self) -> Built:
        """The parent as it is: mask 0."""
        nothing = fcr.Expansion(frozenset(), frozenset(), frozenset())
        return Built(0, {}, {}, nothing, 0, self.parent.env)

    def build(self, mask: int) -> Built:
        """Replace, rebuild, re-bind. What a rebuild cannot do is `failure`; everything else is bad input."""
        work = _Work(self.parent, self._verifier)
        roots = set()
        for proposal in self.chosen(mask):
            roots |= work.replace(proposal)
        expansion = fcr.expand(frozenset(roots), self.parent.edges, work.rebuild)
        work.record_edges(expansion.rebuilt | roots)
        packages = {n: f for n, f in work.packages.items() if f != self.parent.envs[n].files}
        envs = {n: work.env(n) for n in sorted({*packages, self.parent.name})}
        env = envs.pop(self.parent.name)
        cost = _cost(self.parent, packages, work.replaced)
        return Built(mask, packages, work.replaced, expansion, cost, env, envs, work.failure)

    def unbuilt(self, mask: int) -> Env:
        """The combination with nothing rebuilt: enough to see whether its edits fit together."""
        work = _Work(self.parent, self._verifier)
        for proposal in self.chosen(mask):
            work.replace(proposal)
        return work.env(self.parent.name)

    def _verifier(self, env: Env) -> Files:
        """A rebuilt verifier; combinations that agree in everything it rests on share one."""
        key = (env.context_id, env.task_id, env.harness_id, env.verifier_id)
        if key not in self._verifiers:
            try:
                self._verifiers[key] = self._rebuild(env)
            except PackageError as error:
                self._verifiers[key] = error
        found = self._verifiers[key]
        if isinstance(found, PackageError):
            raise found
        return found


class _Work:
    """One combination under construction."""

    def __init__(self, parent: Parent, verifier: RebuildVerifier) -> None:
        self.parent = parent
        self.packages: dict[str, dict[str, bytes]] = {n: dict(e.files) for n, e in parent.envs.items()}
        self.replaced: dict[str, Files] = {}
        self.bound: dict[str, Files] = {}  # resources that the context proposal names, replaced or not
        self.failure = ""
        self._verifier = verifier

    def env(self, package: str) -> Env:
        """A package as it stands now, with the replaced resources."""
        bound = self.bound if package == self.parent.name else self.replaced
        resources = {**self.parent.envs[package].resources, **bound}
        env = env_from_files(self.packages[package], resources)
        for ref in env.context.resources:  # a context's id stands for the content it is bound to
            name = f"{ref.kind}/{ref.name}"
            known = ref in self.parent.envs[package].context.resources and name not in bound
            if not known and tree_of(resources[name]) != ref.tree:
                raise PackageError("context/context.json", "resources", f"{name} is not what {ref.tree[:12]} holds")
        return env

    def replace(self, proposal: Frozen) -> set[str]:
        """Put a proposal's files in place; the nodes that it replaces."""
        draft, name = proposal.draft, self.parent.name
        self._set(name, draft.component, draft.files)
        new = {r: c for r, c in draft.resources.items() if tree_of(c) != self.parent.present.get(r)}
        self.replaced.update(new)
        self.bound.update(draft.resources)
        return {f"{name}/{draft.component}", *(f"resources/{r}" for r in new)}

    def rebuild(self, name: str) -> bool:
        """Make the derived files of one node again; whether its tree is another one."""
        package, _, component = name.rpartition("/")
        if package not in self.packages:
            return False
        before = self._tree(package, component)
        if component == "context":
            self._rebind(package)
        elif component == "verifier":
            self._rebuild_verifier(package)
        return self._tree(package, component) != before

    def record_edges(self, nodes: set[str] | frozenset[str]) -> None:
        """The rebuilt and replaced nodes were built against the versions that are present now."""
        for package, files in self.packages.items():
            mine = {n.rpartition("/")[2] for n in nodes if n.rpartition("/")[0] == package}
            if mine:
                record = Package.load(files["package.json"], "package.json")
                edges = [self._present(package, e) if e.source in mine else e for e in record.edges]
                if "context" in mine:
                    edges = [*_bindings(self.env(package)), *(e for e in edges if not _is_binding(e))]
                files["package.json"] = record.model_copy(update={"edges": tuple(edges)}).dump()

    def _present(self, package: str, edge: Edge) -> Edge:
        if _is_binding(edge):
            return edge
        changes: dict[str, Any] = {"version": self._tree(package, edge.target)}
        if edge.source == "verifier" and edge.target == "context":
            env = self.env(package)
            read = {blob_id(env.start[p]) for p in contract_sources(env.contract) if p in env.start}
            changes["blobs"] = tuple(sorted(read))
        return edge.model_copy(update=changes)

    def _rebind(self, package: str) -> None:
        files = self.packages[package]
        trees = {n: tree_of(c) for n, c in self.replaced.items()}
        files["context/context.json"] = _repinned(files["context/context.json"], trees)

    def _rebuild_verifier(self, package: str) -> None:
        try:
            self._set(package, "verifier", self._verifier(self.env(package)))
        except PackageError as error:
            whose = "" if package == self.parent.name else f"{package}: "
            self.failure = self.failure or f"{whose}the verifier cannot be made again: {error.reason}"

    def _set(self, package: str, component: str, content: Files) -> None:
        head = component + "/"
        files = {p: d for p, d in self.packages[package].items() if not p.startswith(head)}
        files.update({head + p: d for p, d in content.items()})
        self.packages[package] = dict(sorted(files.items()))

    def _tree(self, package: str, component: str) -> str:
        return tree_of(below(self.packages[package], component + "/"))


def _edges(name: str, env: Env) -> list[Dependency]:
    recorded = {e.source for e in env.record.edges}
    found = [Dependency(node(name, e.source), node(name, e.target), e.version) for e in env.record.edges]
    for component in COMPONENTS:
        if component not in recorded:
            found += [Dependency(node(name, component), node(name, t), "") for t in DEFAULT[component]]
    known = {(d.source, d.target) for d in found}
    for ref in env.context.resources:
        edge = Dependency(node(name, "context"), f"resources/{ref.kind}/{ref.name}", ref.tree)
        if (edge.source, edge.target) not in known:
            found.append(edge)
    return found


def _is_binding(edge: Edge) -> bool:
    return edge.source == "context" and edge.target.startswith("resources/")


def _bindings(env: Env) -> list[Edge]:
    """The edges from a context to its resources, as context.json lists them."""
    return [
        Edge(source="context", target=f"resources/{r.kind}/{r.name}", version=r.tree) for r in env.context.resources
    ]


def _repinned(data: bytes, trees: Mapping[str, str]) -> bytes:
    """context.json with new tree ids for some resources; the same bytes where nothing changes."""
    context = Context.load(data, "context/context.json")
    refs = tuple(
        r.model_copy(update={"tree": trees.get(f"{r.kind}/{r.name}", r.tree)}) for r in context.resources
    )
    return data if refs == context.resources else context.model_copy(update={"resources": refs}).dump()


def _cost(parent: Parent, packages: Mapping[str, Files], resources: Mapping[str, Files]) -> int:
    """Bytes of the changed blobs: new ones, and old ones that are gone. package.json is bookkeeping."""
    total = 0
    pairs = [(parent.envs[n].files, f) for n, f in packages.items()]
    pairs += [(parent.env.resources.get(n, {}), f) for n, f in resources.items()]
    for old, new in pairs:
        total += sum(len(d) for p, d in new.items() if p != "package.json" and old.get(p) != d)
        total += sum(len(d) for p, d in old.items() if p not in new)
    return total


def _kind(resource: str) -> ComponentName:
    return resource.partition("/")[0]  # type: ignore[return-value]
