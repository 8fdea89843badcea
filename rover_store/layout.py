"""What a revision holds: packages and resources, read from its tree.

Another git may have put anything there. What no name reaches, because its name cannot be typed or because it does not
lie where the name says, is not listed; `fsck` tells of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple, Protocol

from rover_store.names import COMPONENTS, RESOURCE_KINDS, package_path
from rover_store.objects import Objects
from rover_store.trees import Level


class Trees(Protocol):
    """Where trees are read: a repository's objects, or a transaction that has written some."""

    def list_tree(self, tree: str, /) -> Level: ...


class PackageEntry(NamedTuple):
    """A package of a revision: its tree, and the tree of each component it has."""

    name: str
    tree: str
    components: dict[str, str]


def package_trees(objects: Objects, root: str, pattern: str = "*") -> dict[str, str]:
    """Name -> tree of the packages below the tree of a revision, sorted by name."""
    places = package_places(objects, root)
    found = {name: tree for path, name, tree in places if fnmatchcase(name, pattern) and is_place(path, name)}
    return dict(sorted(found.items()))


def is_place(path: str, name: str) -> bool:
    """Whether a package of this name lies at its place."""
    return is_name(name) and path == package_path(name)


def is_name(name: str) -> bool:
    """Whether a package or resource of this name can be named: text, and one step of a path."""
    if not name or "/" in name or "\\" in name:
        return False
    return name.isascii() or not any("\ud800" <= c <= "\udfff" for c in name)


def is_owned(path: str) -> bool:
    """Whether a folder at this path of a revision is a package or a resource."""
    top, *within = path.split("/")
    if top == "resources":
        return len(within) == 2 and within[0] in RESOURCE_KINDS and is_name(within[1])
    return top == "packages" and len(within) == 4 and is_place(path, within[3])


def package_places(objects: Objects, root: str) -> Iterator[tuple[str, str, str]]:
    """Path, name and tree of every package, wherever below `packages` it lies."""
    return fanned(objects, root, "packages")


def fanned(objects: Trees, root: str, top: str) -> Iterator[tuple[str, str, str]]:
    """Path, name and tree of every folder that lies three folders below the one at the top of a tree."""
    item = objects.list_tree(root).get(top)
    levels = [(top, objects.list_tree(item.id))] if item is not None and item.is_folder else []
    for _ in range(3):
        levels = [
            (f"{path}/{n}", objects.list_tree(item.id))
            for path, level in levels
            for n, item in level.items()
            if item.is_folder
        ]
    for path, level in levels:
        for name, item in level.items():
            if item.is_folder:
                yield f"{path}/{name}", name, item.id


def entry(objects: Trees, name: str, tree: str) -> PackageEntry:
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
        if kind in kinds and kinds[kind].is_folder
        for name, item in sorted(objects.list_tree(kinds[kind].id).items())
        if item.is_folder and is_name(name)
    }


class TreeChange(NamedTuple):
    """A named tree on two sides; None where it does not exist."""

    name: str
    old: str | None
    new: str | None


def changed_packages(objects: Trees, old: str | None, new: str | None) -> list[TreeChange]:
    """Packages that differ between the trees of two revisions, sorted. Equal folders are not opened."""
    sides = [_below(objects, root, "packages") for root in (old, new)]
    folders = [TreeChange("packages", sides[0], sides[1])]
    for _ in range(3):
        folders = [
            TreeChange(f"{path}/{digit}", o, n) for path, a, b in folders for digit, o, n in unequal(objects, a, b)
        ]
    found = (
        change for path, a, b in folders for change in unequal(objects, a, b)
        if is_place(f"{path}/{change.name}", change.name)
    )  # fmt: skip
    return sorted(found)


def changed_resources(objects: Trees, old: str | None, new: str | None) -> list[TreeChange]:
    """Resources that differ between the trees of two revisions, sorted."""
    sides = [_below(objects, root, "resources") for root in (old, new)]
    out = []
    for kind, a, b in unequal(objects, *sides):
        if kind in RESOURCE_KINDS:
            out += [TreeChange(f"{kind}/{name}", o, n) for name, o, n in unequal(objects, a, b) if is_name(name)]
    return sorted(out)


def changed_components(objects: Trees, old: str | None, new: str | None) -> list[TreeChange]:
    """Components that differ between two versions of a package, in the order C, T, H, V."""
    sides = [entry(objects, "", tree).components if tree else {} for tree in (old, new)]
    return [
        TreeChange(c, sides[0].get(c), sides[1].get(c)) for c in COMPONENTS if sides[0].get(c) != sides[1].get(c)
    ]


def _below(objects: Trees, root: str | None, name: str) -> str | None:
    item = objects.list_tree(root).get(name) if root else None
    return item.id if item is not None and item.is_folder else None


def unequal(objects: Trees, old: str | None, new: str | None) -> list[TreeChange]:
    """Folders below two trees that differ, one level deep."""
    if old == new:
        return []
    levels = [
        {n: item.id for n, item in objects.list_tree(tree).items() if item.is_folder} if tree else {}
        for tree in (old, new)
    ]
    names = levels[0].keys() | levels[1].keys()
    return [
        TreeChange(n, levels[0].get(n), levels[1].get(n)) for n in names if levels[0].get(n) != levels[1].get(n)
    ]
