"""What takes the space: objects by kind, packs, refs, the biggest blobs and where they are used, evidence, the index.

One reading of packs and trees, no blob is inflated. Sizes are bytes; `stored` is what an object takes on disk.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rover_store.care.inventory import Inventory, loose_size, open_repositories, store_repositories
from rover_store.oplog import operations
from rover_store.packs import BLOB, KIND_NAME
from rover_store.refs import Refs

if TYPE_CHECKING:
    from rover_store.store import Store

_REACHED = 1
_BIGGEST = 10
Tick = Callable[[str, int, int], None]


class KindStats(NamedTuple):
    """Objects of one kind in one repository."""

    repository: str
    kind: str
    objects: int
    stored: int


class RepositoryStats(NamedTuple):
    """One repository as files. `unreachable`: objects that no ref reaches, and their bytes."""

    name: str
    packs: int
    loose: int
    refs: int
    size: int
    unreachable: int
    unreachable_size: int


class BigBlob(NamedTuple):
    """A blob that takes much, and one place where it is used at the head; empty where it is not."""

    id: str
    stored: int
    size: int
    path: str


class Stats(NamedTuple):
    """What a store holds and what it takes.

    `logical`: bytes of all files of the head, each counted wherever it is used; `shared`: how many times less is
    stored, uncompressed, because equal files are one.
    """

    counts: dict[str, int]
    repositories: tuple[RepositoryStats, ...]
    kinds: tuple[KindStats, ...]
    biggest: tuple[BigBlob, ...]
    logical: int
    distinct: int
    index_size: int
    total: int

    @property
    def sharing(self) -> float:
        """How many times more there would be without sharing."""
        return self.logical / self.distinct if self.distinct else 1.0


def stats(store: Store, *, biggest: int = _BIGGEST, progress: Tick | None = None) -> Stats:
    """Measure a store."""
    tick = progress or (lambda _what, _done, _total: None)
    folders = store_repositories(store.folder)
    inventory = Inventory(open_repositories(folders))
    try:
        inventory.read(lambda done: tick("reading", done, inventory.count), sizes=True)
        own = [n for n, repository in enumerate(inventory.repositories) if repository.own]
        parts, kinds = [], []
        for n in own:
            values = Refs(inventory.repositories[n].git).all().values()
            inventory.mark((inventory.of(value) for value in values), _REACHED)
        for n in own:
            part, rows = _repository(inventory, n)
            parts.append(part)
            kinds += rows
        logical, distinct, big = _head(store, inventory, biggest)
    finally:
        inventory.close()
    index = _index_size(store.folder)
    counts = _counts(store)
    return Stats(counts, tuple(parts), tuple(kinds), tuple(big), logical, distinct, index,
                 index + sum(part.size for part in parts))  # fmt: skip


def _repository(inventory: Inventory, n: int) -> tuple[RepositoryStats, list[KindStats]]:
    """Objects of a repository by kind. One that lies in several packs counts once; the files count as they are."""
    repository, bit = inventory.repositories[n], 1 << min(n, 7)
    kinds: dict[int, list[int]] = {}
    unreachable = unreachable_size = 0
    marks, stored = inventory.marks, inventory.stored
    for number, (place, kind) in enumerate(zip(inventory.places, inventory.kinds, strict=True)):
        if place & bit:
            row = kinds.setdefault(kind, [0, 0])
            row[0] += 1
            row[1] += stored[number]
            if not marks[number] & _REACHED:
                unreachable += 1
                unreachable_size += stored[number]
    size = sum(pack.size + pack.index_size for pack in repository.packs)
    size += sum(loose_size(repository.git, name) for name in repository.loose)
    refs = len(Refs(repository.git).all())
    part = RepositoryStats(
        repository.name, len(repository.packs), len(repository.loose), refs, size, unreachable, unreachable_size
    )
    return part, [KindStats(repository.name, KIND_NAME.get(k, "unknown"), *row) for k, row in sorted(kinds.items())]


def _head(store: Store, inventory: Inventory, biggest: int) -> tuple[int, int, list[BigBlob]]:
    """Bytes of the head's files as they are used and as they are stored; the biggest blobs of the store."""
    kinds, stored, whole = inventory.kinds, inventory.stored, inventory.whole
    blobs = (n for n, kind in enumerate(kinds) if kind == BLOB)
    top = nlargest(biggest, blobs, key=lambda n: (stored[n], -n))
    head = store.refs.head_id()
    logical = distinct = 0
    paths: dict[int, str] = {}
    if head is not None:
        tree = store.revisions.load(head).tree
        used, above = below(inventory, inventory.of(tree), set(top))
        logical = used.get(inventory.of(tree), 0)
        distinct = sum(whole[n] for n in used if kinds[n] == BLOB)
        paths = _paths(store, inventory, tree, above)
    big = [BigBlob(inventory.name(n), stored[n], whole[n], paths.get(n, "")) for n in top]
    return logical, distinct, big


def below(inventory: Inventory, root: int, wanted: set[int]) -> tuple[dict[int, int], set[int]]:
    """Bytes of all files below each object that a tree reaches; and the objects above one of the wanted ones.

    A folder that is used twice is walked once and counts twice.
    """
    used: dict[int, int] = {}
    above: set[int] = set()
    waiting = [root] if root >= 0 else []
    kinds, whole, links = inventory.kinds, inventory.whole, inventory.links
    while waiting:
        here = waiting.pop()
        if here < 0:  # all below it is done
            here = -1 - here
            inner = links(here)
            used[here] = sum([used.get(link, 0) for link in inner])
            if not above.isdisjoint(inner):
                above.add(here)
        elif here not in used:
            if kinds[here] == BLOB:
                used[here] = whole[here]
                if here in wanted:
                    above.add(here)
            else:
                used[here] = 0
                waiting.append(-1 - here)
                waiting += links(here)
    return used, above


def _paths(store: Store, inventory: Inventory, root: str, above: set[int]) -> dict[int, str]:
    """One path for each wanted blob: only folders above one are opened."""
    found: dict[int, str] = {}
    waiting = [(root, "")] if above else []
    while waiting:
        tree, prefix = waiting.pop()
        for name, item in store.objects.list_tree(tree).items():
            number = inventory.of(item.id)
            if item.is_folder and number in above:
                waiting.append((item.id, f"{prefix}{name}/"))
            elif number in above:
                found.setdefault(number, place(prefix + name))
    return found


def place(path: str) -> str:
    """A path in the tree of a revision as people write it: `NAME/task/task.json`, without the fan-out."""
    parts = path.split("/")
    return "/".join(parts[4:]) if parts[0] == "packages" and len(parts) > 4 else path


def _index_size(folder: Path) -> int:
    found = (folder / f"index.db{suffix}" for suffix in ("", "-wal", "-shm"))
    return sum(os.path.getsize(path) for path in found if path.exists())


def _counts(store: Store) -> dict[str, int]:
    tables = {"packages": "package", "resources": "resource", "commits": "history WHERE shown", "rollouts": "rollout",
              "verdicts": "verdict"}  # fmt: skip

    def question(db: sqlite3.Connection) -> dict[str, int]:
        found = {name: int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) for name, table in tables.items()}
        families = db.execute("SELECT count(DISTINCT family) FROM package WHERE family != ''").fetchone()[0]
        return {**found, "families": int(families)}

    return {**store.index.ask(question), "operations": sum(1 for _ in operations(store))}
