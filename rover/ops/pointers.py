"""What the ids in a record's evidence are, and the command that shows each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from rover_store.names import package_path

if TYPE_CHECKING:
    from rover_store.records import Repair
    from rover_store.store import Store

_ID = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


class Pointer(NamedTuple):
    """One piece of evidence. `command` is empty where nothing is kept to show, `what` where the command says enough."""

    id: str
    what: str
    command: str = ""


def pointers(store: Store, evidence: Iterable[str], repair: Repair) -> tuple[Pointer, ...]:
    """What stands behind some evidence of a case, each once."""
    return tuple(_pointer(store, item, repair) for item in dict.fromkeys(evidence))


def _pointer(store: Store, item: str, repair: Repair) -> Pointer:
    if not _ID.fullmatch(item):
        return _path(store, item, repair)
    if len(item) == 64:
        found = store.evidence.get_rollout(item)
        if found is None:
            return Pointer(item, "a state that was graded by itself; its grading is not kept")
        return Pointer(item, f"rollout of {found.key.policy}, {found.end}", f"rover show {item[:12]}")
    if store.objects.exists(item):
        return Pointer(item, "", f"rover show {item[:12]}")
    return Pointer(item, "an object of the evidence")


def _path(store: Store, item: str, repair: Repair) -> Pointer:
    """A file of the package or of its workspace, else words."""
    parent = repair.parent
    root = store.revisions.load(parent).tree
    for path in (item, f"context/files/{item}"):
        if re.fullmatch(r"[^\s:\x00-\x1f]+", path) and store.objects.subtree(
            root, f"{package_path(repair.package)}/{path}"
        ):
            return Pointer(item, "", f"rover show {parent[:12]}:{repair.package}/{path}")
    return Pointer(item, "a file of the workspace" if re.fullmatch(r"[\w./-]+\.\w+", item) else "")
