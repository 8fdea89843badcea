"""The files that a commit changed, below the packages and resources that its log entry names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from rover_store.diffs.diff import Status, files_diff

if TYPE_CHECKING:
    from rover_store.history.log import LogEntry
    from rover_store.store import Store


class FileChange(NamedTuple):
    """A file that differs from the first parent's. Ids are those of blobs, None where it does not exist."""

    path: str
    status: Status
    old: str | None
    new: str | None


def files(store: Store, entry: LogEntry) -> Iterator[FileChange]:
    """Files that differ, a package after the other. A log narrowed to a component lists those of the component.

    A path begins with the name of the package, or with resources/.
    """
    names = {change.node for change in entry.changes}
    for node, old, new in entry.changes:
        package = node.rpartition("/")[0]
        if node.startswith("resources/") or package not in names:  # a component is listed with its package
            for file in files_diff(store.objects, old, new):
                if not file.path.endswith("/"):  # a folder without a file in it
                    yield FileChange(f"{node}/{file.path}", file.status, file.old, file.new)
