"""What a revision holds: packages and resources, read from its tree."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from rover_store.names import COMPONENTS, RESOURCE_KINDS
from rover_store.objects import Objects
from rover_store.trees import Level


class PackageEntry(NamedTuple):
    """A package of a revision: its tree, and the tree of each component it has."""

    name: str
    tree: str
    components: dict[str, str]


def package_trees(objects: Objects, root: str, pattern: str = "*") -> dict[str, str]:
    """Name -> tree of the packages below the tree of a revision, sorted by name."""
    top = objects.list_tree(root).get("packages")
    out: dict[str, str] = {}
    levels: list[Level] = [objects.list_tree(top.id)] if top is not None and top.is_folder else []
    for _ in range(3):
        levels = [objects.list_tree(item.id) for level in levels for item in level.values() if item.is_folder]
    for level in levels:
        out.update((n, item.id) for n, item in level.items() if item.is_folder and fnmatchcase(n, pattern))
    return dict(sorted(out.items()))


def entry(objects: Objects, name: str, tree: str) -> PackageEntry:
    level = objects.list_tree(tree)
    return PackageEntry(name, tree, {c: level[c].id for c in COMPONENTS if c in level and level[c].is_folder})


def resource_trees(objects: Objects, root: str) -> dict[str, str]:
    """`KIND/NAME` -> tree of the resources below the tree of a revision, sorted."""
    top = objects.list_tree(root).get("resources")
    if top is None or not top.is_folder:
        return {}
    kinds = objects.list_tree(top.id)
    return {
        f"{kind}/{name}": item.id
        for kind in sorted(RESOURCE_KINDS)
        if kind in kinds
        for name, item in sorted(objects.list_tree(kinds[kind].id).items())
        if item.is_folder
    }
