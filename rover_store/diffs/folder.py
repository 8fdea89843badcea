"""A checked-out folder against the store: its files as trees in memory, nothing written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rover_store.diffs.diff import PackageDiff, one_package
from rover_store.errors import NotFound, PackageError
from rover_store.files.intake import read_folder
from rover_store.names import blob_id, check_name
from rover_store.objects import Objects
from rover_store.packs import object_id
from rover_store.trees import FILE, Level, TreeItem, nest, parse_tree, write_level

if TYPE_CHECKING:
    from rover_store.store import Store


class Overlay(Objects):
    """The objects of a store with some more on top, in memory. Blobs are read when they are asked for."""

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects.git)
        self._blobs: dict[str, Callable[[], bytes]] = {}
        self._sizes: dict[str, int] = {}
        self._trees: dict[str, Level] = {}

    def add(self, files: dict[str, Callable[[], bytes]]) -> str:
        """Put files on top and return the id of their tree."""
        items = {}
        for path, read in files.items():
            data = read()
            found = blob_id(data)
            self._blobs[found], self._sizes[found] = read, len(data)
            items[path] = (FILE, found)
        return write_level(nest(items), self.keep)

    def read(self, object_hex: str) -> bytes:
        blob = self._blobs.get(object_hex)
        return super().read(object_hex) if blob is None else blob()

    def size(self, object_hex: str) -> int:
        size = self._sizes.get(object_hex)
        return super().size(object_hex) if size is None else size

    def stream(self, object_hex: str) -> Iterator[bytes]:
        return iter([self._blobs[object_hex]()]) if object_hex in self._blobs else super().stream(object_hex)

    def list_tree(self, tree_hex: str) -> Level:
        level = self._trees.get(tree_hex)
        return super().list_tree(tree_hex) if level is None else dict(level)

    def subtree(self, tree_hex: str, path: str) -> TreeItem | None:
        here: TreeItem | None = TreeItem(0o040000, tree_hex)
        for part in path.split("/") if path else ():
            here = self.list_tree(here.id).get(part) if here is not None and here.is_folder else None
        return here

    def keep(self, kind: int, data: bytes) -> str:
        """Put one tree object on top and return its id."""
        tree = object_id(kind, data)
        self._trees[tree] = parse_tree(data)
        return tree


class FolderDiff(NamedTuple):
    """The store's version of a package against a folder. `objects` reads both sides; `package` is None if equal."""

    objects: Overlay
    package: PackageDiff | None
    name: str
    old: str | None
    new: str
    skipped: tuple[str, ...]


def folder_diff(store: Store, folder: Path, rev: str = "HEAD") -> FolderDiff:
    """Compare a package folder with the package of that name in a revision. PackageError names a bad file."""
    intake = read_folder(folder)
    name = _name(intake.data("package.json"))
    try:
        old = store.package(name, rev).tree
    except NotFound as error:
        if error.what != "package":
            raise
        old = None
    overlay = Overlay(store.objects)
    files = {entry.path: entry.read for entry in intake.files}
    if old is not None and (item := store.objects.subtree(old, "package.json")) is not None:
        record = _as_taken(intake.data("package.json"), store.objects.read(item.id))
        files["package.json"] = lambda: record
    new = overlay.add(files)
    package = one_package(overlay, name, old, new) if old != new else None
    return FolderDiff(overlay, package, name, old, new, intake.skipped)


def _as_taken(here: bytes, stored: bytes) -> bytes:
    """A folder's package.json with what a commit fills in: edges where none are written, and the admission."""
    try:
        value, kept = json.loads(here), json.loads(stored)
    except (ValueError, RecursionError):
        return here
    if not isinstance(kept, dict):
        return here
    filled = dict(value)
    for field in ("edges", "admission"):
        if field in kept and (not value.get(field) or field == "admission"):
            filled[field] = kept[field]
    if filled == value:
        return here
    return stored if filled == kept else (json.dumps(filled, indent=2, ensure_ascii=False) + "\n").encode()


def _name(data: bytes) -> str:
    """The name in a package.json, which need not be whole otherwise."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise PackageError("package.json", "", "not valid JSON") from None
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str):
        raise PackageError("package.json", "name", "missing")
    return check_name(name)
