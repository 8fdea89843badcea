"""Package folders: `checkout` writes one, `commit_folder` takes one back and checks everything first.

A package's files are plain: the executable bit is not kept, so equal bytes are equal versions on any machine.

A folder remembers the version it began as (`base`). Where the store has moved on since, what was changed here
and what was changed there are merged; where both changed one thing, nothing is taken (`merge`).

Who edits a component by hand vouches for it: its edges are pinned to the present versions of what it depends on.
Its dependents keep the versions they were built against, and so show as stale.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rover_store.errors import NotFound, UsageError
from rover_store.files.extraction import plan, write_folder
from rover_store.files.intake import BASE_FILE, LARGE, LIMITS, FolderLimits, Intake, read_folder
from rover_store.files.package_records import check_records
from rover_store.folders import base as folder_base
from rover_store.folders.base import Base
from rover_store.folders.pins import completed
from rover_store.ids import check_name
from rover_store.layout import PackageEntry, entry
from rover_store.names import COMPONENTS
from rover_store.records import Harness
from rover_store.trees import FILE, TreeItem, tree_id

if TYPE_CHECKING:
    from rover_store.store import Store

HARNESS = "harness/harness.json"
#: is given the harness and the paths of a package
Check = Callable[[Harness, list[str]], None]

__all__ = ["LARGE", "LIMITS", "FolderCommit", "FolderLimits", "checkout", "commit_folder", "read_folder"]


class FolderCommit(NamedTuple):
    """What taking a folder did. `changed` is empty, and `commit` the head, where nothing differs.

    `merged` names the components that the store had changed since the folder was checked out, and keeps.
    """

    package: str
    commit: str
    changed: tuple[str, ...]
    skipped: tuple[str, ...]
    merged: tuple[str, ...] = ()


def checkout(store: Store, name: str, folder: Path, rev: str = "HEAD", *, force: bool = False) -> PackageEntry:
    """Write a package out; the folder appears whole or not at all, and remembers what it is.

    The folder must not exist, be empty, or be a checkout of this package without changes of its own. `force` takes
    one with changes, and they are lost. PackageError names what another git put there and cannot be written.
    """
    found = store.package(name, rev)
    old = _replaceable(folder, name, force)
    planned = plan(store.objects, found.tree, name, reserved=(BASE_FILE,))
    files = tree_id({path: (FILE, item.id) for path, item in planned.files.items()})
    base = Base(name, found.tree, files, store.resolve(rev))
    write_folder(store.objects, planned, folder, lambda inner: folder_base.write(inner, base), replace=old)
    return found


def _replaceable(folder: Path, name: str, force: bool) -> bool:
    """Whether a folder is there that may be replaced. UsageError where one is that may not."""
    if not folder.is_symlink() and not folder.exists():
        return False
    if not folder.is_dir() or folder.is_symlink():
        raise UsageError(f"{folder} exists and is not an empty folder", hint="choose another folder")
    if not any(folder.iterdir()):
        return False
    base = folder_base.read(folder)
    if base is None:
        raise UsageError(f"{folder} exists and is not an empty folder", hint="choose another folder")
    if base.package != name:
        raise UsageError(f"{folder} is a checkout of {base.package}", hint="choose another folder")
    if not force and _bytes_of(read_folder(folder, LARGE)) != base.files:
        raise UsageError(f"{folder} has changes that are not committed", hint="rover commit; or --force discards them")
    return True


def _bytes_of(intake: Intake) -> str:
    return tree_id({f.path: (FILE, f.blob_id()) for f in intake.files})


def commit_folder(
    store: Store, folder: Path, message: str = "", *, author: str | None = None, time: int | None = None,
    command: str = "", fresh: bool = False, force: bool = False, limits: FolderLimits = LIMITS,
    check: Check = lambda harness, paths: None,
) -> FolderCommit:  # fmt: skip
    """Take a package folder into the store as one commit on the current branch.

    `fresh` pins every component anew. `force` takes the folder as it is, whatever the store has meanwhile. `check`
    raises a PackageError for what a store knows nothing of: tools that nobody has.
    PackageError names what is wrong in the folder, UsageError what both sides changed; then nothing changes.
    """
    from rover_store.folders.merge import beginning, merge_folder

    intake = read_folder(folder, limits)
    paths = [f.path for f in intake.files]
    package = check_records(intake, paths)
    check(Harness.load(intake.data(HARNESS), HARNESS), paths)
    name = check_name(package.name)
    base = None if force else folder_base.read(folder)
    with store.write(command=command or f"commit {folder.name}") as tx:
        present = _present(store, name)
        began = beginning(store, folder, name, base, present)
        raw = tx.tree({f.path: TreeItem(FILE, f.store(tx)) for f in intake.files})
        own = completed(store, tx, raw, began, fresh=fresh)
        what = "" if present is None else f" ({', '.join(_changed(began, entry(tx, name, own)))})"
        said = message or f"{'Add' if present is None else 'Change'} {name}{what}"
        done = merge_folder(tx, name, base, began, present, own, said, author=author, time=time)
        tree = done.tree
        if fresh and done.kept:
            tree = completed(store, tx, tree, entry(tx, name, tree), fresh=True)
        changed = _changed(present, entry(tx, name, tree))
        if changed:
            tx.set_package(name, tree)
            commit = tx.commit(done.message, parents=done.parents, author=author, time=time)
        else:
            commit = store.refs.head_id() or tx.commit(said, author=author, time=time)
    if not done.kept or changed:
        folder_base.write(folder, Base(name, own if done.kept else tree, raw, done.side or commit))
    return FolderCommit(name, commit, changed, intake.skipped, done.kept if changed else ())


def _present(store: Store, name: str) -> PackageEntry | None:
    try:
        return store.package(name)
    except NotFound:
        return None


def _changed(old: PackageEntry | None, new: PackageEntry) -> tuple[str, ...]:
    """Components that differ; `package` where only what lies beside them does."""
    if old is None:
        return COMPONENTS
    if old.tree == new.tree:
        return ()
    parts = tuple(c for c in COMPONENTS if old.components.get(c) != new.components.get(c))
    return parts or ("package",)
