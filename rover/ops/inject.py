"""Break a package on purpose: one commit that says no more than that the package was edited."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rover.diagnose.inject.edits import CONTEXT
from rover.diagnose.inject.protocol import Damage, Injector, truth
from rover.diagnose.inject.registry import combinations, grouped, injector, injectors
from rover.rollout.env import Env, load_env, tree_of
from rover_store.errors import UsageError
from rover_store.records import Context

if TYPE_CHECKING:
    from rover_store.store import Store

#: trailer by which a repair knows that history would merely take the break back; the kind is not told
TRAILER = "Rover-Injected"


@dataclass(frozen=True, slots=True)
class Injected:
    """What was done. Only the caller hears of it."""

    package: str
    kind: str
    seed: int
    note: str
    repair: str
    expects: tuple[tuple[str, str], ...]
    components: tuple[str, ...]
    right: tuple[int, ...]
    fixable: bool
    paths: tuple[str, ...]
    resources: tuple[str, ...]
    commit: str
    parent: str

    def manifest(self) -> dict[str, Any]:
        """All of it as JSON, for a benchmark that has to know."""
        return {
            "package": self.package,
            "kind": self.kind,
            "seed": self.seed,
            "what": self.note,
            "repair": self.repair,
            "expects": [{"finding": kind, "component": component} for kind, component in self.expects],
            "components": list(self.components),
            "right": list(self.right),
            "fixable": self.fixable,
            "paths": list(self.paths),
            "resources": list(self.resources),
            "commit": self.commit,
            "parent": self.parent,
        }


def inject(
    store: Store, name: str, kind: str, seed: int = 0, *, command: str = "inject", dry_run: bool = False
) -> Injected:
    """Break a package at HEAD. NotFound for an unknown kind, UsageError where the package offers no hold for it."""
    how = injector(kind)
    parent = store.resolve("HEAD")
    entry = store.package(name, parent)
    env = load_env(store, entry.tree)
    damage = how.inject(env, seed)
    after = damage.applied(env.files)
    if after == dict(env.files) and not damage.resources:
        raise UsageError(f"{kind} with seed {seed} changes nothing in {name}")
    known = truth(how, damage)
    commit = "" if dry_run else _commit(store, env, entry.tree, damage, command)
    return Injected(
        package=name,
        kind=kind,
        seed=seed,
        note=damage.note,
        repair=how.repair,
        expects=known.expects,
        components=known.components,
        right=known.right,
        fixable=known.fixable,
        paths=tuple(sorted(damage.files)),
        resources=tuple(sorted(damage.resources)),
        commit=commit,
        parent=parent,
    )


def kinds() -> tuple[Injector, ...]:
    """Every kind that can be injected, the listed pairs and triples left out."""
    return injectors()


def listing() -> dict[str, list[Injector]]:
    """All kinds by what they break: a component, several, beyond repair; then the listed pairs and triples."""
    return {**grouped(injectors()), "pairs and triples": list(combinations())}


class _Sibling(NamedTuple):
    tree: str
    context: bytes


def _rebound(store: Store, env: Env, damage: Damage) -> Iterator[tuple[str, _Sibling]]:
    """The other packages that share a changed resource, with a context that is bound to its new version."""
    new = {name: tree_of(files) for name, files in damage.resources.items()}
    old = {f"{r.kind}/{r.name}": r.tree for r in env.context.resources}
    for entry in store.packages():
        if entry.name == env.package:
            continue
        found = store.objects.subtree(entry.tree, CONTEXT)
        if found is None:
            continue
        context = Context.load(store.objects.read(found.id), CONTEXT)
        refs = []
        for ref in context.resources:
            name = f"{ref.kind}/{ref.name}"
            shares = name in new and ref.tree == old.get(name)
            refs.append(ref.model_copy(update={"tree": new[name]}) if shares else ref)
        if tuple(refs) != context.resources:
            changed = context.model_copy(update={"resources": tuple(refs)})
            yield entry.name, _Sibling(entry.tree, changed.dump())


def _commit(store: Store, env: Env, base: str, damage: Damage, command: str) -> str:
    with store.write(command=command) as tx:
        tree = tx.edit_tree(base, dict(damage.files))
        tx.set_package(env.package, tree)
        for resource, files in sorted(damage.resources.items()):
            made = tx.tree(dict(files))
            assert made == tree_of(files)
            tx.set_resource(resource, made)
        held = store.resources()
        for resource in damage.gone:
            if resource in held:
                tx.set_resource(resource, None)
        if damage.siblings:
            for name, package in _rebound(store, env, damage):
                tx.set_package(name, tx.edit_tree(package.tree, {CONTEXT: package.context}))
        return str(tx.commit(f"Edit {env.package}", trailers={TRAILER: "yes"}))
