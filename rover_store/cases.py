"""Repair cases that still wait for somebody: their result was not promoted, and the package is as it was examined."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from rover_store.errors import NotFound

if TYPE_CHECKING:
    from rover_store.store import Store

OPEN = ("undecided", "kept", "dry_run")


class OpenCase(NamedTuple):
    """A repair case whose result was not promoted."""

    case: str
    package: str
    outcome: str
    reason: str


def open_cases(store: Store, rev: str = "HEAD", pattern: str = "*") -> list[OpenCase]:
    """Open cases of the packages of a revision, sorted. One whose package changed since is closed."""
    found = []
    for case, commit in sorted(store.cases().items()):
        item = store.objects.subtree(store.revisions.load(commit).tree, "case.json")
        record: Any = json.loads(store.objects.read(item.id)) if item else {}
        package = str(record.get("package", ""))
        if record.get("outcome") in OPEN and fnmatchcase(package, pattern) and _as_examined(store, record, rev):
            found.append(OpenCase(case, package, str(record["outcome"]), str(record.get("reason", ""))))
    return found


def _as_examined(store: Store, record: dict[str, Any], rev: str) -> bool:
    examined = (record.get("diagnosis") or {}).get("tree")
    try:
        return examined is None or store.package(str(record["package"]), rev).tree == examined
    except NotFound:
        return False
