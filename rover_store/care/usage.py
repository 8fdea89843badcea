"""Who takes the space: bytes by package, and by the evidence of each package and policy.

`own` is what would go if it alone were gone: objects that no other group uses. `shared` is used by others too.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from rover_store import layout
from rover_store.care.inventory import Inventory, open_repositories, store_repositories
from rover_store.graph_at import edges
from rover_store.names import rollout_path
from rover_store.packs import BLOB

if TYPE_CHECKING:
    from rover_store.store import Store

K = TypeVar("K")
Tick = Callable[[str, int, int], None]


class PackageUsage(NamedTuple):
    """A package with the resources that it is bound to. `size`: bytes of its files; `own` and `shared`: stored."""

    name: str
    files: int
    size: int
    own: int
    shared: int


class EvidenceUsage(NamedTuple):
    """Evidence on one package by one policy. Sizes as of packages; `pruned` rollouts hold no turns."""

    package: str
    policy: str
    rollouts: int
    pruned: int
    turns: int
    verdicts: int
    own: int
    shared: int


class _Group(NamedTuple):
    files: int
    size: int
    own: int
    shared: int


def package_usage(
    store: Store, pattern: str = "*", rev: str = "HEAD", *, progress: Tick | None = None
) -> list[PackageUsage]:
    """Usage of the packages of a revision whose names match a glob, sorted by name."""
    tick = progress or (lambda _what, _done, _total: None)
    if rev == "HEAD" and store.refs.head_id() is None:
        return []
    commit = store.commit(rev)
    inventory = Inventory(open_repositories(store_repositories(store.folder)))
    try:
        inventory.read(lambda done: tick("reading", done, inventory.count), sizes=True)
        resources = layout.resource_trees(store.objects, commit.tree)
        bound = _bound(store, commit.id, resources)
        groups: dict[str, list[int]] = {}
        for name, tree in layout.package_trees(store.objects, commit.tree).items():
            trees = [tree, *(resources[r] for r in bound.get(name, ()))]
            groups[name] = [inventory.of(t) for t in trees]
        found = _measure(inventory, groups, [n for n in groups if fnmatchcase(n, pattern)])
    finally:
        inventory.close()
    return [PackageUsage(name, *group) for name, group in sorted(found.items())]


def _bound(store: Store, commit: str, resources: Iterable[str]) -> dict[str, list[str]]:
    """Resources that each package depends on, by its edges."""
    bound: dict[str, list[str]] = {}
    for edge in edges(store, (f"resources/{name}" for name in resources), commit, dependents=True):
        bound.setdefault(edge.source.rpartition("/")[0], []).append(edge.target.removeprefix("resources/"))
    return bound


def evidence_usage(store: Store, pattern: str = "*", *, progress: Tick | None = None) -> list[EvidenceUsage]:
    """Usage of the evidence, by package (a glob) and policy."""
    tick = progress or (lambda _what, _done, _total: None)
    inventory = Inventory(open_repositories(store_repositories(store.folder)))
    try:
        inventory.read(lambda done: tick("reading", done, inventory.count), sizes=True)
        groups: dict[tuple[str, str], list[int]] = {}
        counts: dict[tuple[str, str], list[int]] = {}
        for key, tree, row in _rollouts(store):
            groups.setdefault(key, []).append(inventory.of(tree))
            total = counts.setdefault(key, [0, 0, 0, 0])
            for i, more in enumerate(row):
                total[i] += more
        wanted = [key for key in groups if fnmatchcase(key[0], pattern)]
        everything = {**groups, ("", ""): [inventory.of(value) for value in store.refs.all().values()]}
        found = _measure(inventory, everything, wanted)
    finally:
        inventory.close()
    out = []
    for (package, policy), group in sorted(found.items()):
        rollouts, pruned, turns, verdicts = counts[package, policy]
        out.append(EvidenceUsage(package, policy, rollouts, pruned, turns, verdicts, group.own, group.shared))
    return out


def _rollouts(store: Store) -> Iterator[tuple[tuple[str, str], str, tuple[int, int, int, int]]]:
    """Group, tree, and (1, pruned, turns, verdicts) of every rollout."""
    evidence = store.evidence
    sql = """SELECT id, package, policy, turns, (SELECT count(*) FROM verdict WHERE rollout = rollout.id)
             FROM rollout ORDER BY id"""
    rows = store.index.ask(lambda db: db.execute(sql).fetchall())
    root = evidence.root()
    for rollout, package, policy, turns, verdicts in rows:
        item = evidence.objects.subtree(root, rollout_path(rollout)) if root else None
        if item is not None:
            pruned = "start" not in evidence.objects.list_tree(item.id)
            yield (package, policy), item.id, (1, int(pruned), turns, verdicts)


def _measure(inventory: Inventory, groups: Mapping[K, Sequence[int]], wanted: Sequence[K]) -> dict[K, _Group]:
    """What each wanted group uses, alone and with others."""
    uses = array("I", bytes(4 * inventory.count))
    seen = array("I", bytes(4 * inventory.count))
    for n, roots in enumerate(groups.values(), 1):
        for number in _reach(inventory, roots, seen, n):
            uses[number] += 1
    found: dict[K, _Group] = {}
    for n, key in enumerate(wanted, len(groups) + 1):
        files = size = own = shared = 0
        for number in _reach(inventory, groups[key], seen, n):
            if inventory.kinds[number] == BLOB:
                files += 1
                size += inventory.whole[number]
            if uses[number] == 1:
                own += inventory.stored[number]
            else:
                shared += inventory.stored[number]
        found[key] = _Group(files, size, own, shared)
    return found


def _reach(inventory: Inventory, roots: Sequence[int], seen: array[int], stamp: int) -> Iterator[int]:
    """Objects below some roots, each once."""
    waiting = [n for n in roots if n >= 0]
    while waiting:
        here = waiting.pop()
        if seen[here] != stamp:
            seen[here] = stamp
            yield here
            waiting += inventory.links(here)
