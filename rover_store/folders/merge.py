"""A folder meets a store that has moved on: what was changed here and there since the checkout is merged.

Both versions stay in history: the folder's is a commit on the version it began as, and the merge has it as its second
parent. Where both sides changed one thing, nothing is taken.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rover_store.errors import NotFound, UsageError
from rover_store.folders.base import Base
from rover_store.history import ancestry
from rover_store.layout import PackageEntry, entry
from rover_store.names import COMPONENTS, package_path

if TYPE_CHECKING:
    from rover_store.records.merge import Conflict
    from rover_store.store import Store
    from rover_store.write import Transaction


class Met(NamedTuple):
    """The tree to commit, and how. `kept`: components as the store has them, `side`: the folder's own commit."""

    tree: str
    message: str
    parents: tuple[str, ...] | None = None
    kept: tuple[str, ...] = ()
    side: str = ""


def beginning(
    store: Store, folder: Path, name: str, base: Base | None, present: PackageEntry | None
) -> PackageEntry | None:
    """The version that a folder began as; the present one where it remembers none. UsageError if it cannot be told."""
    force = "--force takes the folder as it is"
    if base is None:
        return present
    if base.package != name:
        if present is not None:
            raise UsageError(f"{folder} was checked out as {base.package}, and {name} exists already", hint=force)
        return None
    here = store.objects.exists(base.tree)
    if present is None:
        if here:
            raise UsageError(f"{name} is no longer on this branch; {folder} is a checkout of it", hint=force)
        return None
    if not here:
        reason = f"{name}: the version that {folder} began as ({base.tree[:12]}) is not in this store"
        raise UsageError(reason, hint=force)
    return entry(store.objects, name, base.tree)


def merge_folder(
    tx: Transaction, name: str, base: Base | None, began: PackageEntry | None, present: PackageEntry | None, own: str,
    message: str, *, author: str | None, time: int | None,
) -> Met:  # fmt: skip
    """What to commit for a folder whose tree is `own`. UsageError names what both sides changed."""
    if began is None or present is None or present.tree in (began.tree, own):
        return Met(own, message)
    kept = tuple(c for c in COMPONENTS if began.components.get(c) != present.components.get(c)) or ("package",)
    if own == began.tree:  # nothing was changed here
        return Met(present.tree, message, kept=kept)
    from rover_store.merging.trees import merge_trees

    done = merge_trees(tx, began.tree, present.tree, own, name=name)
    if done.conflicts:
        raise _both(tx.store, name, done.conflicts[0], len(done.conflicts))
    head = tx.store.refs.head_id()
    assert head is not None
    if base is None or not base.commit or not _holds(tx, base, name) or not _before(tx.store, base.commit, head):
        return Met(done.tree, message, kept=kept)
    side = tx.detached_commit(message, base=base.commit, packages={name: own}, author=author, time=time)
    return Met(done.tree, f"Merge: {message}", (head, side), kept, side)


def _holds(tx: Transaction, base: Base, name: str) -> bool:
    try:
        item = tx.store.objects.subtree(tx.load(base.commit).tree, package_path(name))
    except NotFound:
        return False
    return item is not None and item.id == base.tree


def _before(store: Store, commit: str, head: str) -> bool:
    try:
        return ancestry.is_ancestor(store, commit, head)
    except NotFound:
        return False


def _both(store: Store, name: str, first: Conflict, number: int) -> UsageError:
    where = first.file or first.component or "the package"
    field = f": {'.'.join(first.field)}" if first.field else ""
    more = f", and {number - 1} more" if number > 1 else ""
    entries = list(store.log(package=name, component=first.component or None, limit=1))
    by = f" (by {entries[0].author.partition(' <')[0]}, {entries[0].id[:10]})" if entries else ""
    hint = f"rover checkout {name} OTHER shows the new version; --force overwrites it"
    return UsageError(f"{name}: {where}{field}{more}: changed here and in the store since the checkout{by}", hint=hint)
