"""The sealed audits of packages: written once through a door that only appends.

They lie in a repository of their own, .rover/sealed.git, which is made when the first one is kept: no clone, copy
or fetch of store.git can carry them. refs/rover/sealed is a chain of commits with the tree
sealed/a/3/f/NAME/0001.json, 0002.json, ... No revision names it and `undo` does not reach it.
The one reader is `read_for_audit`, for rover.repair.audit.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rover_store.commits import AUTHOR, encode_commit, parse_commit
from rover_store.create import bare
from rover_store.errors import StoreError
from rover_store.lock import RepositoryLock
from rover_store.names import check_name, package_path
from rover_store.objects import Objects
from rover_store.packs import BLOB, COMMIT, PackWriter, fsync_folder
from rover_store.publish import publish
from rover_store.refs import SEALED, Refs
from rover_store.rollup import roll_up
from rover_store.trees import FILE, Level, TreeItem, edit_tree, parse_tree

if TYPE_CHECKING:
    from rover_store.records import SealedAudit
    from rover_store.store import Store

FOLDER = "sealed.git"


class Sealed:
    """The door."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def append(self, package: str, record: SealedAudit) -> None:
        """Keep the audit of a package. The same record again changes nothing; another one comes after it."""
        self.append_all({package: record})

    def append_all(self, records: Mapping[str, SealedAudit]) -> None:
        """Keep many at once: one pack, one commit."""
        append_bytes(self._store, {name: [record.dump()] for name, record in records.items()})


def append_bytes(store: Store, records: Mapping[str, list[bytes]]) -> int:
    """Keep records as they are stored, each after those that its package has. Returns how many were new."""
    for name in records:
        check_name(name)
    _move_out(store)
    return _append(store, _make(store), records)


def _append(store: Store, git: Path, records: Mapping[str, list[bytes]]) -> int:
    objects, refs = Objects(git), Refs(git)
    with RepositoryLock(git, refs) as lock:
        head = refs.get(SEALED)
        root = _tree(objects, head) if head else None
        writer = PackWriter(git / "objects" / "pack")
        try:
            edits: dict[str, TreeItem | None] = {}
            for name, rows in sorted(records.items()):
                there = [item.id for item in _files(objects, root, name).values()]
                for data in rows:
                    blob = writer.add(BLOB, data)
                    if blob not in there:
                        there.append(blob)
                        edits[f"{_folder(name)}/{len(there):04}.json"] = TreeItem(FILE, blob)
            if not edits:
                return 0

            def level(tree: str) -> Level:
                return parse_tree(writer.get(tree)[1]) if tree in writer else objects.list_tree(tree)

            tree = edit_tree(root, edits, level, writer.add)
            data = encode_commit(tree, [head] if head else [], "Sealed", AUTHOR, store.clock())
            commit = writer.add(COMMIT, data)
            roll_up(objects, lock)
            publish(lock, refs, writer, {SEALED: (head, commit)})
        finally:
            with suppress(OSError):
                writer.abort()
    return len(edits)


def read_for_audit(store: Store, package: str) -> tuple[SealedAudit, ...]:
    """All audits kept for a package, the first one written first; empty if there is none."""
    from rover_store.records import SealedAudit

    _move_out(store)
    objects = Objects(store.folder / FOLDER)
    head = Refs(objects.git).get(SEALED)
    found = _files(objects, _tree(objects, head), package) if head else {}
    return tuple(SealedAudit.load(objects.read(item.id), "sealed audit") for _, item in sorted(found.items()))


def _reachable(objects: Objects, head: str) -> Iterator[str]:
    here: str | None = head
    seen: set[str] = set()
    while here is not None:
        yield here
        commit = parse_commit(here, objects.read_commit(here))
        waiting = [commit.tree]
        while waiting:
            tree = waiting.pop()
            if tree in seen:
                continue
            seen.add(tree)
            yield tree
            for item in objects.list_tree(tree).values():
                if item.is_folder:
                    waiting.append(item.id)
                elif item.id not in seen:
                    seen.add(item.id)
                    yield item.id
        here = commit.parents[0] if commit.parents else None


def _make(store: Store) -> Path:
    """The repository, made beside and renamed where it is not there yet."""
    git = store.folder / FOLDER
    if git.is_dir():
        return git
    with store.lock:
        if not git.is_dir():
            for left in git.parent.glob(f"{FOLDER}.tmp-*"):
                shutil.rmtree(left, ignore_errors=True)
            scratch = git.with_name(f"{FOLDER}.tmp-{os.getpid()}")
            try:
                bare(scratch)
                os.rename(scratch, git)
                fsync_folder(git.parent)
            except OSError as error:
                raise StoreError(f"cannot make {git}: {error.strerror}") from None
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return git


def _move_out(store: Store) -> None:
    """Move what an older rover kept in store.git: the records are kept here first, then the ref goes."""
    if store.refs.get(SEALED) is None:
        return
    with store.lock:
        head = store.refs.get(SEALED)
        if head is None:
            return
        old = store.objects.read_tree(_tree(store.objects, head))
        rows: dict[str, list[bytes]] = {}
        for path, item in sorted(old.items()):
            rows.setdefault(path.split("/")[-2], []).append(store.objects.read(item.id))
        git = _make(store)
        if Refs(git).get(SEALED) is None:
            _copy(store, git, head)
        else:
            _append(store, git, rows)
        publish(store.lock, store.refs, PackWriter(store.git / "objects" / "pack"), {SEALED: (head, None)})


def _copy(store: Store, git: Path, head: str) -> None:
    """The chain itself, with its ids and times."""
    refs = Refs(git)
    with RepositoryLock(git, refs) as lock:
        writer = PackWriter(git / "objects" / "pack")
        try:
            for name in _reachable(store.objects, head):
                kind, data = store.objects.get(name)
                writer.add(kind, data, name)
            publish(lock, refs, writer, {SEALED: (None, head)})
        finally:
            with suppress(OSError):
                writer.abort()


def _folder(name: str) -> str:
    return "sealed" + package_path(check_name(name)).removeprefix("packages")


def _tree(objects: Objects, head: str) -> str:
    return parse_commit(head, objects.read_commit(head)).tree


def _files(objects: Objects, root: str | None, name: str) -> Level:
    item = objects.subtree(root, _folder(name)) if root else None
    return objects.list_tree(item.id) if item is not None and item.is_folder else {}
