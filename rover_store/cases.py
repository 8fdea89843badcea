"""Repair cases that still wait for somebody: their result was not promoted, and the package is as it was examined."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from rover_store.errors import NotFound, StoreError, UsageError

if TYPE_CHECKING:
    from rover_store.store import Store

OPEN = ("undecided", "kept", "dry_run", "review")


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


def find_case(store: Store, word: str) -> tuple[str, str]:
    """Name and commit of a case, by its name, the beginning of it, or the beginning of its commit's id."""
    cases = store.cases()
    if word in cases:
        return word, cases[word]
    found = sorted(name for name, commit in cases.items() if word and name.startswith(word))
    if not found and len(word) >= 4:
        found = sorted(name for name, commit in cases.items() if commit.startswith(word))
    if len(found) > 1:
        some = ", ".join(found[:5]) + (" ..." if len(found) > 5 else "")
        raise UsageError(f"{word}: {len(found)} cases begin like this", hint=some)
    if not found:
        known = ", ".join(sorted(cases)[:5]) or "none; `rover repair` makes them"
        raise NotFound("case", word, hint=f"known: {known}")
    return found[0], cases[found[0]]


def case_json(store: Store, case: str, commit: str) -> bytes:
    """case.json of a case commit, as stored. StoreError where the commit holds none."""
    item = store.objects.subtree(store.revisions.load(commit).tree, "case.json")
    if item is None or item.is_folder:
        raise StoreError(f"case {case}: {commit[:12]} holds no case.json", hint="`rover fsck` tells more")
    return store.objects.read(item.id)


def _as_examined(store: Store, record: dict[str, Any], rev: str) -> bool:
    examined = (record.get("diagnosis") or {}).get("tree")
    try:
        return examined is None or store.package(str(record["package"]), rev).tree == examined
    except NotFound:
        return False
