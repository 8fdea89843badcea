"""Packages of a commit by glob and by tag. Needs no torch.

Tags of a package: its own `tags`, and `family:NAME`, `workspace:NAME`, `builder:NAME` and `KEY:VALUE` for every entry
of its build config (`level:3`). A tag may be a glob. Tags with one key before the colon are alternatives, the rest are
all needed: `family:edit family:memo level:3` is level 3 of either family.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from rover_store.errors import PackageError, UsageError

if TYPE_CHECKING:
    from rover_store.layout import PackageEntry
    from rover_store.store import Store


@dataclass(frozen=True, slots=True)
class Described:
    """A package with what selection and splitting need of its package.json."""

    entry: PackageEntry
    workspace: str
    tags: frozenset[str]
    #: what ties it to other packages: its workspace, its resources, its sources
    ties: frozenset[str]


def select(store: Store, rev: str, pattern: str = "*", tags: Sequence[str] = ()) -> list[PackageEntry]:
    """Packages of a revision by glob and tags, sorted by name. UsageError where there is none."""
    return [one.entry for one in selected(store, rev, pattern, tags)[1]]


def tags_of(record: Mapping[str, Any]) -> frozenset[str]:
    """All tags of a package, from its package.json."""
    said = {str(tag) for tag in record.get("tags") or ()}
    for key in ("family", "workspace"):
        if record.get(key):
            said.add(f"{key}:{record[key]}")
    provenance = record.get("provenance") or {}
    if provenance.get("builder"):
        said.add(f"builder:{provenance['builder']}")
    return frozenset(said | {f"{k}:{_word(v)}" for k, v in (provenance.get("config") or {}).items()})


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def selected(store: Store, rev: str, pattern: str, tags: Sequence[str]) -> tuple[str, list[Described]]:
    commit = store.resolve(rev)
    entries = store.packages(commit, pattern)
    if not entries:
        hint = "`rover list` shows all names"
        raise UsageError(f"no package of {commit[:12]} matches {pattern!r}", hint=hint)
    found = [one for one in _described(store, entries) if _has_tags(one.tags, tags)]
    if not found:
        known = sorted({tag.partition(":")[0] for one in _described(store, entries[:50]) for tag in one.tags})
        hint = f"kinds of tags here: {', '.join(known)}"
        raise UsageError(f"no package of {commit[:12]} that matches {pattern!r} has {' '.join(tags)}", hint=hint)
    return commit, found


def _has_tags(own: frozenset[str], wanted: Sequence[str]) -> bool:
    keyed: dict[str, bool] = {}
    for number, tag in enumerate(wanted):
        key = tag.partition(":")[0] if ":" in tag else f"#{number}"
        keyed[key] = keyed.get(key, False) or any(fnmatchcase(one, tag) for one in own)
    return all(keyed.values())


def _described(store: Store, entries: Iterable[PackageEntry]) -> list[Described]:
    """package.json of many packages, read in the order in which they lie on disk."""
    at: dict[str, PackageEntry] = {}
    blobs: dict[str, str] = {}
    for entry in entries:
        item = store.objects.list_tree(entry.tree).get("package.json")
        if item is None or item.is_folder:
            raise PackageError(f"{entry.name}/package.json", "", "the file is missing")
        at[entry.name], blobs[entry.name] = entry, item.id
    data = dict(store.objects.read_many(blobs.values()))
    return [_read(entry, data[blobs[name]]) for name, entry in at.items()]


def _read(entry: PackageEntry, data: bytes) -> Described:
    try:
        return _one(entry, json.loads(data))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):  # pushed by another git
        where = f"{entry.name}/package.json"
        raise PackageError(where, "", "is no record of a package", hint="rover fsck says more") from None


def _one(entry: PackageEntry, record: Mapping[str, Any]) -> Described:
    workspace = str(record.get("workspace") or "")
    ties = {e["target"] for e in record.get("edges") or () if e["target"].startswith("resources/")}
    if workspace:
        ties.add(f"workspace:{workspace}")
    else:
        ties |= {f"source:{s['sha256']}" for s in (record.get("provenance") or {}).get("sources") or ()}
    return Described(entry, workspace, tags_of(record), frozenset(ties or {f"package:{entry.name}"}))
