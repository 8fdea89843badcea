"""Finishing an open merge: what a person settled is checked, the edges are made again, and the branch moves.

A component that had a conflict, or that the person edited, is pinned to the versions that are present now: whoever
settles it vouches for it. The others keep what the merge gave them (`edges`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rover_store.errors import NotFound, PackageError, UsageError
from rover_store.files.intake import read_folder
from rover_store.files.package_records import check_records
from rover_store.merging.fields import ABSENT
from rover_store.merging.files import RECORDS, field_side
from rover_store.merging.merge import MergeResult, finish
from rover_store.merging.open_merges import (
    RECORD,
    OpenMerge,
    field_bytes,
    name_of,
    path_of,
    read_at,
    require_open,
    settle,
)
from rover_store.merging.settle import place_of, read_choices
from rover_store.merging.text import markers, text_of
from rover_store.merging.trees import TreeMerge, flat
from rover_store.merging.whole import base_tree
from rover_store.names import COMPONENTS, package_path
from rover_store.records import Record
from rover_store.records.merge import Conflict
from rover_store.refs import HEADS
from rover_store.trees import FILE, FOLDER, TreeItem

if TYPE_CHECKING:
    from rover_store.store import Store
    from rover_store.write import Transaction


def continue_merge(
    store: Store,
    folder: Path | None = None,
    branch: str | None = None,
    *,
    author: str | None = None,
    time: int | None = None,
    command: str = "",
) -> MergeResult:
    """Finish an open merge with what a folder settles, or with what was chosen before. One commit, one operation.

    PackageError names what is not settled, not a record, or still has markers; then nothing changes.
    """
    with store.write(command or "merge --continue") as tx:
        there = require_open(store, branch)
        record = there.record
        if tx.ref(HEADS + record.into) != record.ours:
            raise UsageError(
                f"{record.into} has moved since the merge of {record.other} began",
                hint=f"rover merge {record.other} merges again; what was chosen for a side is kept",
            )
        choices: dict[str, Any] = read_choices(folder, there) if folder is not None else {}
        _all_settled(record.conflicts, choices)
        tree = there.tree if folder is None else _from_folder(tx, there, folder, choices)
        tree = _repinned(store, tx, there, tree)
        commit = finish(store, tx, record, tx.edit_tree(tree, {RECORD: None}), author, time)
        tx.set_ref(there.ref, None, expect=there.commit)
        settled = tuple(sorted({c.package for c in record.conflicts if c.package}))
    return MergeResult(
        "merged", record.into, record.other, record.ours, record.theirs, commit, record.bases, merged=settled
    )


def _all_settled(conflicts: tuple[Conflict, ...], choices: dict[str, Any]) -> None:
    left = [c for c in conflicts if c.choice is None and c.id not in choices]
    if left:
        first = " ".join((name_of(left[0]), ".".join(left[0].field))).strip()
        raise UsageError(
            f"{len(left)} conflict(s) are not settled, the first in {first}",
            hint="rover merge --resolve DIR writes them out; rover merge --ours GLOB or --theirs GLOB takes a side",
        )


def _from_folder(tx: Transaction, there: OpenMerge, folder: Path, choices: dict[str, Any]) -> str:
    """The tree with the folder's packages, and what was chosen, in it."""
    tree = there.tree
    for place, found in {place_of(c): c for c in there.record.conflicts}.items():
        if found.kind not in ("package", "resource") or choices[found.id] == "file":
            tree = tx.edit_tree(tree, {_top(found): _read_place(tx, folder / place, found)})
    sides = {i: c for i, c in choices.items() if c in ("base", "ours", "theirs")}
    _, tree = settle(tx, there.record, tree, sides)
    for found in there.record.conflicts:
        choice = choices[found.id]
        if isinstance(choice, dict):
            tree = _with_value(tx, tree, found, choice["value"])
        if choice == "file" and found.kind == "text":
            _no_markers(tx, tree, found)
    return tree


def _top(found: Conflict) -> str:
    """The package or resource as a whole, or the file that is neither."""
    return path_of(found.model_copy(update={"file": "" if found.package or found.resource else found.file}))


def _read_place(tx: Transaction, folder: Path, found: Conflict) -> TreeItem | None:
    if not (found.package or found.resource):
        inside = read_folder(folder.parent) if folder.parent.is_dir() else None
        name = folder.name
        return TreeItem(FILE, tx.blob(inside.data(name))) if inside is not None and inside.has(name) else None
    if not folder.is_dir():
        if found.kind in ("package", "resource"):
            return None
        raise PackageError(place_of(found), "", "is missing from the folder")
    intake = read_folder(folder)
    tree = tx.tree({f.path: TreeItem(FILE, tx.blob(f.read())) for f in intake.files})
    return TreeItem(FOLDER, tree)


def _with_value(tx: Transaction, tree: str, found: Conflict, value: Any) -> str:
    path = path_of(found)
    kind: type[Record] | None = RECORDS.get(found.file) if found.package or found.resource else None
    try:
        field_side(value)
        data = field_bytes(kind, read_at(tx, tree, path), found, ABSENT if value == "(absent)" else value)
    except (ValueError, KeyError) as error:
        raise PackageError(name_of(found), ".".join(found.field), f"cannot be set ({error})") from None
    return tx.edit_tree(tree, {path: data})


def _no_markers(tx: Transaction, tree: str, found: Conflict) -> None:
    try:
        text = text_of(read_at(tx, tree, path_of(found)))
    except NotFound:  # the person deleted the file
        return
    lines = markers(text) if text is not None else []
    if lines:
        raise PackageError(name_of(found), f"line {lines[0]}", "a conflict marker is left")


def _repinned(store: Store, tx: Transaction, there: OpenMerge, tree: str) -> str:
    """Each package that had a conflict: its records checked, its edges made again."""
    record = there.record
    roots = (base_tree(store, tx, record.bases), tx.load(record.ours).tree, tx.load(record.theirs).tree)
    for name in sorted({c.package for c in record.conflicts if c.package}):
        merged = _package(tx, tree, name)
        if merged is None:
            continue
        base, ours, theirs = (_package(tx, root, name) if root else None for root in roots)
        stored = _Stored(tx, merged)
        check_records(stored, sorted(stored.paths))
        if ours is not None and theirs is not None:
            vouched = _vouched(tx, there, name, merged)
            merged = TreeMerge(tx).repin((base, ours, theirs), merged, vouched)
        tree = tx.edit_tree(tree, {package_path(name): TreeItem(FOLDER, merged)})
    return tree


def _vouched(tx: Transaction, there: OpenMerge, name: str, merged: str) -> frozenset[str]:
    before = _package(tx, there.tree, name)
    old = tx.list_tree(before) if before else {}
    new = tx.list_tree(merged)
    edited = {c for c in COMPONENTS if old.get(c) != new.get(c)}
    return frozenset(edited | {c.component for c in there.record.conflicts if c.package == name and c.component})


def _package(tx: Transaction, root: str, name: str) -> str | None:
    item = TreeItem(FOLDER, root)
    for part in package_path(name).split("/"):
        inner = tx.list_tree(item.id).get(part) if item.is_folder else None
        if inner is None:
            return None
        item = inner
    return item.id if item.is_folder else None


class _Stored:
    """The files of a package tree, for the check of its records."""

    def __init__(self, tx: Transaction, tree: str) -> None:
        self._tx = tx
        self.paths = {path: item.id for path, item in flat(tx, tree).items()}

    def has(self, path: str) -> bool:
        return path in self.paths

    def data(self, path: str) -> bytes:
        if path not in self.paths:
            raise PackageError(path, "", "missing")
        return self._tx.read(self.paths[path])
