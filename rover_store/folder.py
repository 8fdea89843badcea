"""Package folders: `checkout` writes one, `commit_folder` takes one back and checks everything first.

A package's files are plain: the executable bit is not kept, so equal bytes are equal versions on any machine.

Who edits a component by hand vouches for it: its edges are pinned to the present versions of what it depends on.
Its dependents keep the versions they were built against, and so show as stale.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rover_store.errors import NotFound, PackageError, StoreError, UsageError
from rover_store.graph import DEFAULT
from rover_store.ids import check_name
from rover_store.intake import Intake, read_folder
from rover_store.layout import PackageEntry
from rover_store.names import COMPONENTS, ComponentName
from rover_store.package_records import check_records
from rover_store.records import Context, Edge, Package
from rover_store.trees import EXECUTABLE, FILE, TreeItem, check_path

if TYPE_CHECKING:
    from rover_store.store import Store
    from rover_store.write import Transaction


class FolderCommit(NamedTuple):
    """What taking a folder did. `changed` is empty, and `commit` the head, where nothing differs."""

    package: str
    commit: str
    changed: tuple[str, ...]
    skipped: tuple[str, ...]


def checkout(store: Store, name: str, folder: Path, rev: str) -> PackageEntry:
    """Write a package out. The folder must not exist or be empty; it appears whole or not at all."""
    entry = store.package(name, rev)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and is not an empty folder", hint="choose another folder")
    try:
        scratch = folder.with_name(f".{folder.name}.tmp-{os.getpid()}")
        scratch.mkdir(parents=True)
        try:
            for path, item in store.objects.read_tree(entry.tree).items():
                _write_file(store, scratch, path, item)
            if folder.exists():
                folder.rmdir()
            os.rename(scratch, folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise StoreError(f"cannot write {folder}: {error.strerror}") from None
    return entry


def _write_file(store: Store, root: Path, path: str, item: TreeItem) -> None:
    if item.mode not in (FILE, EXECUTABLE):
        raise StoreError(f"{path!r} is not a plain file; it was not written by rover")
    target = root.joinpath(*check_path(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(target, flags, 0o777 if item.mode == EXECUTABLE else 0o666)
    with os.fdopen(fd, "wb") as file:
        file.write(store.objects.read(item.id))


def commit_folder(
    store: Store, folder: Path, message: str, *, author: str | None, time: int | None, command: str, fresh: bool = False
) -> FolderCommit:
    """Take a package folder into the store as one commit on the current branch. `fresh` pins every component anew."""
    intake = read_folder(folder)
    package = check_records(intake, [f.path for f in intake.files])
    name = check_name(package.name)
    with store.write(command=command or f"commit {folder.name}") as tx:
        old = _present(store, name)
        tree = tx.tree({f.path: TreeItem(FILE, tx.blob(f.read())) for f in intake.files})
        present: dict[str, str] = {n: i.id for n, i in tx.list_tree(tree).items() if i.is_folder and n in COMPONENTS}
        edges = _pin(store, tx, intake, package, None if fresh else old, present)
        # an admission is what a test found, never what a folder claims: the stored one stands, for its components
        record = _stored_record(store, old)
        admission = record.admission if record is not None else None
        if edges != package.edges or admission != package.admission:
            data = package.model_copy(update={"edges": edges, "admission": admission}).dump()
            tree = tx.edit_tree(tree, {"package.json": data})
        changed = _changed(store, old, tree, present)
        if changed:
            tx.set_package(name, tree)
        verb = "Add" if old is None else "Change"
        what = "" if old is None else f" ({', '.join(changed)})"
        head = store.refs.head_id()
        if not changed and head is not None:
            return FolderCommit(name, head, (), intake.skipped)
        commit = tx.commit(message or f"{verb} {name}{what}", author=author, time=time)
    return FolderCommit(name, commit, changed, intake.skipped)


def _present(store: Store, name: str) -> PackageEntry | None:
    try:
        return store.package(name)
    except NotFound:
        return None


def _changed(store: Store, old: PackageEntry | None, tree: str, present: Mapping[str, str]) -> tuple[str, ...]:
    if old is None:
        return COMPONENTS
    if old.tree == tree:
        return ()
    parts = tuple(c for c in COMPONENTS if old.components.get(c) != present.get(c))
    return parts or ("package",)


def _pin(
    store: Store, tx: Transaction, intake: Intake, package: Package, old: PackageEntry | None,
    present: Mapping[str, str],
) -> tuple[Edge, ...]:  # fmt: skip
    """The package's edges: those of a component that differs from the stored one are pinned anew.

    Those of an unchanged one stay as stored, whatever the folder says: a folder keeps the pins of its checkout.
    """
    context = Context.load(intake.data("context/context.json"), "context/context.json")
    bound: dict[str, str] = {}
    for i, ref in enumerate(context.resources):
        if not tx.exists(ref.tree):
            reason = f"no version {ref.tree[:12]} in this store"
            raise PackageError("context/context.json", f"resources.{i}.tree", reason)
        bound[f"resources/{ref.kind}/{ref.name}"] = ref.tree
    out: list[Edge] = []
    record = _stored_record(store, old)
    stored = record.edges if record is not None else ()
    for component in COMPONENTS:
        if old is not None and old.components.get(component) == present[component]:
            out += [edge for edge in stored if edge.source == component]
            continue
        given = [edge for edge in package.edges if edge.source == component]
        out += _pins(component, given, bound, present, store)
    return tuple(out)


def _stored_record(store: Store, old: PackageEntry | None) -> Package | None:
    item = store.objects.list_tree(old.tree).get("package.json") if old is not None else None
    return Package.load(store.objects.read(item.id), "package.json") if item is not None else None


def _pins(
    component: ComponentName, given: list[Edge], bound: Mapping[str, str], present: Mapping[str, str], store: Store
) -> list[Edge]:
    targets = list(bound) if component == "context" else list(DEFAULT[component])
    targets += [e.target for e in given if e.target not in targets and component != "context"]
    blobs = {(e.target, e.version): e.blobs for e in given}
    resources = store.resources()
    out = []
    for target in targets:
        version = present.get(target) or bound.get(target) or resources.get(target.removeprefix("resources/"))
        if version is None:
            raise PackageError("package.json", "edges", f"{component} depends on {target}, which does not exist")
        out.append(Edge(source=component, target=target, version=version, blobs=blobs.get((target, version), ())))
    return out


