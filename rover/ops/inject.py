"""Break a package on purpose: one commit that says no more than that the package was edited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rover.diagnose.inject.protocol import Damage, Injector, truth
from rover.diagnose.inject.registry import combinations, injector, injectors
from rover.rollout.env import Env, load_env, tree_of
from rover_store.errors import UsageError

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
    """Every kind that can be injected, the listed pairs and triples included."""
    return (*injectors(), *combinations())


def _commit(store: Store, env: Env, base: str, damage: Damage, command: str) -> str:
    with store.write(command=command) as tx:
        tree = tx.edit_tree(base, dict(damage.files))
        tx.set_package(env.package, tree)
        for resource, files in sorted(damage.resources.items()):
            made = tx.tree(dict(files))
            assert made == tree_of(files)
            tx.set_resource(resource, made)
        return str(tx.commit(f"Edit {env.package}", trailers={TRAILER: "yes"}))
