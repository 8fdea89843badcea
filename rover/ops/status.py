"""What needs attention in a revision: stale components, packages without evidence, open repair cases."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rover_store.names import ComponentName

if TYPE_CHECKING:
    from rover_store.graph import Stale
    from rover_store.store import Store


#: the components that a rollout depends on
_RUN: tuple[ComponentName, ...] = ("context", "task", "harness")


@dataclass(frozen=True, slots=True)
class OpenCase:
    """A repair case whose result was not promoted."""

    case: str
    package: str
    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class Status:
    """`without_evidence`: packages whose present C, T and H no recorded rollout used."""

    branch: str
    head: str
    packages: int
    stale: tuple[Stale, ...]
    without_evidence: tuple[str, ...]
    open_cases: tuple[OpenCase, ...]


def status(store: Store, pattern: str = "*") -> Status:
    """The state of the current branch. UsageError where a glob matches nothing in a store that has commits."""
    from rover_store.errors import NotFound, UsageError

    try:
        head = store.resolve("HEAD")
    except NotFound:
        return Status(store.current_branch() or "main", "", 0, (), (), ())
    entries = store.packages("HEAD", pattern)
    if not entries and pattern != "*":
        raise UsageError(f"no package of HEAD matches {pattern!r}", hint="`rover list` shows all names")
    bare = []
    for entry in entries:
        wanted: dict[str, str] = {str(c): entry.components[c] for c in _RUN if c in entry.components}
        if not store.index.rollouts(wanted):
            bare.append(entry.name)
    return Status(
        store.current_branch() or "(detached)",
        head,
        len(entries),
        tuple(store.stale("HEAD", pattern)),
        tuple(bare),
        tuple(_open_cases(store)),
    )


def _open_cases(store: Store) -> list[OpenCase]:
    found = []
    for case, commit in sorted(store.cases().items()):
        item = store.objects.subtree(store.revisions.load(commit).tree, "case.json")
        record = json.loads(store.objects.read(item.id)) if item else {}
        if record.get("outcome") in ("undecided", "kept", "dry_run"):
            reason = str(record.get("reason", ""))
            found.append(OpenCase(case, str(record.get("package", "")), str(record["outcome"]), reason))
    return found
