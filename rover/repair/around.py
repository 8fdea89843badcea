"""What a proposer may know of other packages: how they hold a shared resource, and which repairs they had.

Each is a function of one question. None gives a way to the store behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from rover.repair.proposals.protocol import Neighbour, Precedent
from rover_store.errors import NotFound, PackageError
from rover_store.ids import ComponentName
from rover_store.records import Context, Package

if TYPE_CHECKING:
    from rover.rollout.env import Env
    from rover_store.store import Store

#: trailers of a commit that a repair promoted
CASE, CHANGED = "Rover-Case", "Rover-Changed"
#: repairs of others, and commits, that are looked at, the newest first
MOST_PRECEDENTS, MOST_COMMITS = 20, 500


def neighbours(
    store: Store, siblings: Mapping[str, tuple[str, ...]], commit: str
) -> Callable[[str], Mapping[str, Neighbour]]:
    """For a resource: each sibling's version of it, and the one that the sibling was built on."""

    def held(resource: str) -> dict[str, Neighbour]:
        found = {}
        for name in siblings.get(resource, ()):
            tree = store.package(name, commit).tree
            try:
                context = Context.load(_file(store, tree, "context/context.json"), "context/context.json")
                record = Package.load(_file(store, tree, "package.json"), "package.json")
            except PackageError:
                continue  # a sibling that cannot be read is the gates' affair
            bound = next((r.tree for r in context.resources if f"{r.kind}/{r.name}" == resource), None)
            edges = [e for e in record.edges if e.source == "context" and e.target == f"resources/{resource}"]
            if bound is not None:
                found[name] = Neighbour(bound, edges[0].version if edges else None)
        return found

    return held


def readable(
    store: Store, env: Env, siblings: Mapping[str, tuple[str, ...]], commit: str
) -> Callable[[str], dict[str, bytes]]:
    """Files of a resource's tree by its id, where the commit, a package in it or its history holds that version.

    NotFound for every other tree, though the store may hold it: what another branch kept is not this package's.
    """
    known: set[str] = set()

    def versions() -> Iterator[set[str]]:
        yield {r.tree for r in env.context.resources} | set(store.resources(commit).values())
        held = neighbours(store, siblings, commit)
        yield {one.bound for resource in siblings for one in held(resource).values()}
        for entry in islice(store.log(commit), 1, MOST_COMMITS):
            yield set(store.resources(entry.id).values())
            yield set(_bindings(store, env.package, entry.id))

    left = versions()

    def read(tree: str) -> dict[str, bytes]:
        while tree not in known:
            found = next(left, None)
            if found is None:
                raise NotFound("version", tree)
            known.update(found)
        return {path: store.objects.read(item.id) for path, item in store.objects.read_tree(tree).items()}

    return read


def _bindings(store: Store, package: str, commit: str) -> list[str]:
    """The versions of resources that a package was bound to at a commit."""
    try:
        data = _file(store, store.package(package, commit).tree, "context/context.json")
        return [r.tree for r in Context.load(data, "context/context.json").resources]
    except (NotFound, PackageError):
        return []


def precedents(store: Store, package: str, commit: str) -> Callable[[ComponentName], Iterator[Precedent]]:
    """Edits of a component that repairs of other packages made in the history of a commit, the newest first."""

    def made(component: ComponentName) -> Iterator[Precedent]:
        looked_at = 0
        for entry in islice(store.log(commit), MOST_COMMITS):
            found = store.commit(entry.id)
            if CASE not in found.trailers or CHANGED not in found.trailers or not found.parents:
                continue
            looked_at += 1
            if looked_at > MOST_PRECEDENTS:
                return
            for node in found.trailers[CHANGED].split(", "):
                other, _, name = node.rpartition("/")
                if name != component or other in (package, "") or other.startswith("resources"):
                    continue
                before, after = (_component(store, rev, other, component) for rev in (found.parents[0], entry.id))
                if before is not None and after is not None and before != after:
                    yield Precedent(entry.id, other, component, before, after)

    return made


def _component(store: Store, rev: str, package: str, component: ComponentName) -> dict[str, bytes] | None:
    try:
        tree = store.package(package, rev).components.get(component)
        if tree is None:
            return None
        return {path: store.objects.read(item.id) for path, item in store.objects.read_tree(tree).items()}
    except NotFound:
        return None


def _file(store: Store, tree: str, path: str) -> bytes:
    item = store.objects.subtree(tree, path)
    if item is None:
        raise PackageError(path, "", "missing")
    return store.objects.read(item.id)
