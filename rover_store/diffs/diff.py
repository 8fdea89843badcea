"""Difference of two revisions by package, component and file. Equal trees are skipped by their id, unopened.

Where two ids differ, something is always named: a file, a mode, or a folder that no file tells of.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

from rover_store import layout, trees
from rover_store.errors import StoreError
from rover_store.objects import Objects
from rover_store.trees import TreeItem

Status = Literal["added", "removed", "changed"]


class FileDiff(NamedTuple):
    """A file that differs. `mode` is set where git's mode of the file changed.

    A path that ends in `/` is a folder: one without a file came or went, or its tree was only written another way.
    """

    path: str
    status: Status
    old: str | None
    new: str | None
    mode: str = ""


class ItemDiff(NamedTuple):
    """A part of a record with an id of its own: a requirement of the contract, a criterion, an anchor."""

    kind: str
    id: str
    status: Status


class ComponentDiff(NamedTuple):
    """A component, or `package` for what lies outside the four components. `files` are below its folder."""

    name: str
    status: Status
    old: str | None
    new: str | None
    files: tuple[FileDiff, ...]
    items: tuple[ItemDiff, ...] = ()


class PackageDiff(NamedTuple):
    name: str
    status: Status
    old: str | None
    new: str | None
    components: tuple[ComponentDiff, ...]


class ResourceDiff(NamedTuple):
    name: str
    status: Status
    old: str | None
    new: str | None
    files: tuple[FileDiff, ...]


class Diff(NamedTuple):
    """What differs between two revisions. `other` belongs to no package or resource, wherever it lies."""

    old: str
    new: str
    packages: tuple[PackageDiff, ...]
    resources: tuple[ResourceDiff, ...]
    other: tuple[FileDiff, ...]


def diff(objects: Objects, old: str, new: str, pattern: str = "*", *, ids: tuple[str, str] | None = None) -> Diff:
    """Difference of the trees of two revisions; packages narrowed by a glob on their names."""
    packages = tuple(packages_diff(objects, old, new, pattern))
    if pattern != "*":
        return Diff(*(ids or (old, new)), packages, (), ())
    resources = tuple(resources_diff(objects, old, new))
    return Diff(*(ids or (old, new)), packages, resources, other_files(objects, old, new))


def packages_diff(objects: Objects, old: str | None, new: str | None, pattern: str = "*") -> Iterator[PackageDiff]:
    """Packages that differ, one after the other: a diff of a whole suite never has to lie in memory."""
    for c in layout.changed_packages(objects, old, new):
        if fnmatchcase(c.name, pattern):
            yield one_package(objects, c.name, c.old, c.new)


def one_package(objects: Objects, name: str, old: str | None, new: str | None) -> PackageDiff:
    """Difference of two trees of packages, whichever revisions they are from."""
    return PackageDiff(name, _status(old, new), old, new, package_diff(objects, old, new))


def resources_diff(objects: Objects, old: str | None, new: str | None) -> Iterator[ResourceDiff]:
    """Resources that differ, one after the other."""
    for c in layout.changed_resources(objects, old, new):
        yield ResourceDiff(c.name, _status(c.old, c.new), c.old, c.new, files_diff(objects, c.old, c.new))


def other_files(objects: Objects, old: str | None, new: str | None) -> tuple[FileDiff, ...]:
    """Files of two revisions that differ and belong to no package and no resource, also where these should lie."""
    return _files(objects, old, new, layout.is_owned)


def package_diff(objects: Objects, old: str | None, new: str | None) -> tuple[ComponentDiff, ...]:
    """Components of two versions of a package that differ; `package` stands for the files beside them."""
    out = []
    for c in layout.changed_components(objects, old, new):
        files = files_diff(objects, c.old, c.new)
        items = _items(objects, c.name, c.old, c.new, {f.path for f in files})
        out.append(ComponentDiff(c.name, _status(c.old, c.new), c.old, c.new, files, items))
    beside = files_diff(objects, old, new, skip=("context", "task", "harness", "verifier"))
    if beside:
        out.insert(0, ComponentDiff("package", "changed" if old and new else _status(old, new), None, None, beside))
    return tuple(out)


def files_diff(
    objects: Objects, old: str | None, new: str | None, *, skip: tuple[str, ...] = ()
) -> tuple[FileDiff, ...]:
    """Files below two trees that differ, sorted by path; `skip` names folders at the top to leave out."""
    return _files(objects, old, new, skip.__contains__)


def _files(
    objects: Objects, old: str | None, new: str | None, skip: Callable[[str], bool]
) -> tuple[FileDiff, ...]:
    out: list[FileDiff] = []
    waiting = [(old, new, "")]  # no recursion: another git may have pushed a tree of any depth
    while waiting:
        old, new, prefix = waiting.pop()
        if old == new:
            continue
        a = objects.list_tree(old) if old else {}
        b = objects.list_tree(new) if new else {}
        if a == b:
            out.append(FileDiff(prefix or "./", _status(old, new), old, new))
        for name in a.keys() | b.keys():
            before, after, path = a.get(name), b.get(name), prefix + name
            if before == after:
                continue
            folders = [item.id if item is not None and item.is_folder else None for item in (before, after)]
            if any(folders) and not skip(path):
                waiting.append((folders[0], folders[1], f"{path}/"))
            files = [item if item is not None and not item.is_folder else None for item in (before, after)]
            if any(files):
                out.append(_file(path, files[0], files[1]))
        if len(out) + len(waiting) > trees.MOST_FILES:
            raise StoreError(f"{prefix or 'a tree'} stands for more than {trees.MOST_FILES} files")
    return tuple(sorted(out, key=lambda f: (f.path, f.status)))


def _file(path: str, before: TreeItem | None, after: TreeItem | None) -> FileDiff:
    old, new = before.id if before else None, after.id if after else None
    mode = f"{before.mode:o} -> {after.mode:o}" if before and after and before.mode != after.mode else ""
    return FileDiff(path, _status(old, new), old, new, mode)


def _status(old: str | None, new: str | None) -> Status:
    return "added" if old is None else "removed" if new is None else "changed"


#: component -> file, list in it, kind of its members
_LISTS = {
    "context": (("context.json", "files", "file"), ("context.json", "resources", "resource")),
    "task": (
        ("contract.json", "requirements", "requirement"),
        ("contract.json", "deliverables", "deliverable"),
        ("contract.json", "givens", "given"),
    ),
    "harness": (("harness.json", "tools", "tool"),),
    "verifier": (("verifier.json", "criteria", "criterion"), ("anchors.json", "anchors", "anchor")),
}


def _items(
    objects: Objects, component: str, old: str | None, new: str | None, changed: set[str]
) -> tuple[ItemDiff, ...]:
    out = []
    for file, field, kind in _LISTS[component]:
        if file not in changed:
            continue
        before, after = _members(objects, old, file, field), _members(objects, new, file, field)
        for name in [*before, *(n for n in after if n not in before)]:
            if before.get(name) != after.get(name):
                status: Status = "added" if name not in before else "removed" if name not in after else "changed"
                out.append(ItemDiff(kind, name, status))
    return tuple(out)


def _members(objects: Objects, tree: str | None, file: str, field: str) -> dict[str, Any]:
    """Members of a list in a record by their id; empty where the file cannot be read."""
    item = objects.subtree(tree, file) if tree else None
    try:
        value = json.loads(objects.read(item.id)) if item is not None else {}
    except (ValueError, RecursionError, StoreError):
        return {}
    rows = value.get(field) if isinstance(value, dict) else None
    out: dict[str, Any] = {}
    for row in rows if isinstance(rows, list) else ():
        name = next((row[k] for k in ("id", "name", "path") if k in row), None) if isinstance(row, dict) else row
        if isinstance(name, str):
            out[name] = row
    return out
