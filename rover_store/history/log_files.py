"""The files that a commit changed, below the packages and resources that its log entry names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from rover_store.objects import Objects

if TYPE_CHECKING:
    from rover_store.history.log import LogEntry
    from rover_store.store import Store


class FileChange(NamedTuple):
    """A file that differs from the first parent's. Ids are those of blobs, None where it does not exist."""

    path: str
    status: str  # added, removed, changed
    old: str | None
    new: str | None


def files(store: Store, entry: LogEntry) -> Iterator[FileChange]:
    """Files that differ, found as they are asked for. A log narrowed to a component lists those of the component.

    A path begins with the name of the package, or with resources/.
    """
    names = {change.node for change in entry.changes}
    for node, old, new in entry.changes:
        package = node.rpartition("/")[0]
        if node.startswith("resources/") or package not in names:  # a component is listed with its package
            yield from _differ(store.objects, node, old, new)


def _differ(objects: Objects, prefix: str, old: str | None, new: str | None) -> Iterator[FileChange]:
    sides = [objects.list_tree(tree) if tree else {} for tree in (old, new)]
    for name in sorted(sides[0].keys() | sides[1].keys()):
        before, after = (side.get(name) for side in sides)
        if before == after:
            continue
        path = f"{prefix}/{name}"
        folders = [item.id if item is not None and item.is_folder else None for item in (before, after)]
        if any(folders):
            yield from _differ(objects, path, *folders)
        was, now = (None if item is None or item.is_folder else item.id for item in (before, after))
        if was or now:
            yield FileChange(path, "added" if was is None else "removed" if now is None else "changed", was, now)
