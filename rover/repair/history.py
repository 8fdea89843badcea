"""What a case reads from the store: versions of a package, its siblings, and the view that proposers get."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from rover.diagnose.protocol import Recorded
from rover.repair.around import neighbours, precedents, readable
from rover.repair.candidates import Parent
from rover.repair.intent import is_admitted
from rover.repair.proposals.protocol import Earlier, PackageView
from rover.rollout.env import Env, below, load_env
from rover_store.errors import PackageError
from rover_store.ids import ComponentName

if TYPE_CHECKING:
    from rover.rollout.engine import Engine
    from rover_store.store import Store

#: trailer of a commit that broke a package on purpose
INJECTED = "Rover-Injected"
#: trailer of a commit that a repair promoted
REPAIRED = "Rover-Case"


class Version(NamedTuple):
    """A package as one commit left it."""

    commit: str
    tree: str
    trailers: dict[str, str]


def versions(store: Store, name: str, rev: str = "HEAD") -> Iterator[Version]:
    """Versions of a package, newest first; commits that removed it are left out."""
    for entry in store.log(rev, package=name):
        tree = next((change.new for change in entry.changes if change.node == name), None)
        if tree is not None:
            yield Version(entry.id, tree, store.commit(entry.id).trailers)


def envs(store: Store, name: str, rev: str = "HEAD") -> Iterator[tuple[str, Env]]:
    """`(commit, env)` of the versions that can be read, newest first."""
    seen: set[str] = set()
    for version in versions(store, name, rev):
        if version.tree in seen:
            continue
        seen.add(version.tree)
        try:
            yield version.commit, load_env(store, version.tree)
        except PackageError:
            continue  # a version that somebody committed broken has no say


def history(store: Store, name: str, rev: str = "HEAD") -> Callable[[ComponentName], Iterable[Earlier]] | None:
    """Earlier versions of a component, newest first; None where the last change broke the package on purpose.

    Taking back an injection is no repair: what the injector changed would be measured, not the repair.
    """
    newest = next(versions(store, name, rev), None)
    if newest is None or _injected(newest):
        return None

    def earlier(component: ComponentName) -> Iterator[Earlier]:
        present: str | None = None
        seen: set[str] = set()
        for version in _before_injection(versions(store, name, rev)):
            try:
                env = load_env(store, version.tree)
            except PackageError:
                continue
            tree = env.component_id(component)
            present = present or tree
            if tree == present or tree in seen:
                continue
            seen.add(tree)
            yield Earlier(version.commit, tree, below(env.files, f"{component}/"), is_admitted(env))

    return earlier


def _before_injection(found: Iterable[Version]) -> Iterator[Version]:
    """Versions newer than the last injection that no repair followed; those that an injection left are no choice."""
    repaired = False
    for version in found:
        if not _injected(version):
            repaired = repaired or REPAIRED in version.trailers
            yield version
        elif not repaired:
            return
        else:
            repaired = False


def _injected(version: Version) -> bool:
    return any(key.startswith(INJECTED) for key in version.trailers)


def recorded(store: Store, env: Env) -> tuple[Recorded, ...]:
    """Rollouts that ran on this very version, with their verdicts where this verifier graded them.

    Pruned ones are left out: nothing is known of what they did.
    """
    found = store.evidence.iter_rollouts(context=env.context_id, task=env.task_id, harness=env.harness_id)
    whole = ((name, t) for name, t in found if not t.pruned)
    return tuple(Recorded(name, t, store.evidence.get_verdict(name, env.verifier_id)) for name, t in whole)


def siblings(store: Store, name: str, resources: Iterable[str], rev: str = "HEAD") -> dict[str, tuple[str, ...]]:
    """Resource (`files/orders`) -> other packages whose context is bound to it."""
    wanted = {f"resources/{r}": r for r in resources}
    found: dict[str, set[str]] = {r: set() for r in wanted.values()}
    edges, _ = store.graph(rev) if wanted else ([], {})
    for edge in edges:
        package, _, component = edge.source.rpartition("/")
        if edge.target in wanted and component == "context" and package != name:
            found[wanted[edge.target]].add(package)
    return {resource: tuple(sorted(names)) for resource, names in found.items()}


def read_parent(store: Store, name: str, commit: str, replaced: Iterable[str] = ()) -> Parent:
    """The package at a commit, and the siblings that are bound to a resource that a proposal replaces."""
    names = {other for others in siblings(store, name, replaced, commit).values() for other in others}
    loaded = {n: load_env(store, store.package(n, commit).tree) for n in sorted({name, *names})}
    return Parent(commit, name, loaded, store.resources(commit))


def view(store: Store, env: Env, commit: str, engine: Engine | None) -> PackageView:
    """What a proposer may see of the package."""
    around = siblings(store, env.package, env.resources, commit)
    return PackageView(
        name=env.package,
        commit=commit,
        tree=env.tree,
        env=env,
        files=env.files,
        resources=env.resources,
        siblings=around,
        engine=engine,
        history=history(store, env.package, commit),
        read=readable(store, env, around, commit),
        present=store.resources(commit),
        neighbours=neighbours(store, around, commit),
        precedents=precedents(store, env.package, commit),
    )
