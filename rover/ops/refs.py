"""Branches, tags and the operation log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rover_store.refs import OPS

if TYPE_CHECKING:
    from rover_store.oplog import Move, Operation
    from rover_store.store import Store


@dataclass(frozen=True, slots=True)
class Named:
    """A branch or a tag and the commit it names."""

    name: str
    commit: str
    current: bool = False


def branches(store: Store) -> tuple[Named, ...]:
    """All branches, by name."""
    current = store.current_branch()
    return tuple(Named(n, c, n == current) for n, c in sorted(store.branches().items()))


def tags(store: Store) -> tuple[Named, ...]:
    """All tags, by name."""
    return tuple(Named(n, c) for n, c in sorted(store.tags().items()))


def make_branch(store: Store, name: str, rev: str, command: str) -> Named:
    """A new branch at a revision; the current one stays."""
    return Named(name, store.create_branch(name, rev, command=command))


def switch(store: Store, name: str, command: str) -> Named:
    """Make a branch the current one."""
    store.switch(name, command=command)
    return Named(name, store.branches()[name], True)


def delete_branch(store: Store, name: str, command: str) -> Named:
    """Delete a branch. Its commits stay in the operation log."""
    return Named(name, store.delete_branch(name, command=command))


def make_tag(store: Store, name: str, rev: str, message: str, command: str) -> Named:
    """An annotated tag at a revision."""
    store.tag(name, rev, message, command=command)
    return Named(name, store.tags()[name])


def delete_tag(store: Store, name: str, command: str) -> Named:
    """Delete a tag."""
    return Named(name, store.delete_tag(name, command=command))


def op_log(store: Store, limit: int | None) -> tuple[Operation, ...]:
    """Operations, the newest first."""
    return tuple(store.op_log(limit))


def undo(store: Store, operation: str | None) -> Operation:
    """Take back an operation (the last one). Returns what was taken back."""
    return store.undo(operation)


def op_show(store: Store, operation: str) -> Operation:
    """One operation by its id or the first digits of it."""
    from rover_store.oplog import find

    return find(store, operation)


def op_restore(store: Store, operation: str) -> tuple[Operation, tuple[Move, ...]]:
    """Everything as it was after an operation. Returns it, and the moves that it took (none: nothing differed)."""
    from rover_store.oplog import restore

    before = store.refs.get(OPS)
    target = restore(store, operation)
    last = next(iter(store.op_log(1)))
    changed = last.id != before and last.details.get("restores") == target.id
    return target, last.moves if changed else ()
