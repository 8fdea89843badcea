"""Collecting what nothing needs, and bringing many packs into one.

Kept is what `gc_roots` names and reaches, and everything younger than the grace period with all that it names:
a pack's or loose object's age is that of its file. Nothing is removed before its replacement is durable, so that a
kill at any moment loses nothing. Readers go on meanwhile; writers wait. Records are copied as they are, deflated.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rover_store.care.gc_roots import roots
from rover_store.care.inventory import (
    Inventory,
    Repository,
    loose_path,
    loose_size,
    open_repositories,
    store_repositories,
)
from rover_store.errors import StoreError, UsageError
from rover_store.lock import RepositoryLock
from rover_store.packs import KIND_NAME
from rover_store.refs import Refs

if TYPE_CHECKING:
    from rover_store.store import Store

GRACE = 14 * 86400
REACHED, YOUNG, WRITTEN = 1, 2, 4
_NOTHING = bytes(not mark & (REACHED | YOUNG) for mark in range(256))
Tick = Callable[[str, int, int], None]


class Kind(NamedTuple):
    """Objects of one kind that go: how many, and the bytes that they take, deflated."""

    kind: str
    objects: int
    size: int


class Collected(NamedTuple):
    """What becomes of one repository. Sizes in bytes; `young`: unreachable, kept by the grace period."""

    repository: str
    reached: int
    young: int
    gone: tuple[Kind, ...]
    packs: int
    packs_after: int
    loose: int
    loose_after: int
    size: int
    size_after: int

    @property
    def gone_objects(self) -> int:
        """How many objects go."""
        return sum(kind.objects for kind in self.gone)


class GcReport(NamedTuple):
    """What a collection did, or would do."""

    repositories: tuple[Collected, ...]
    dry_run: bool
    forgotten: int = 0

    @property
    def freed(self) -> int:
        """Bytes that the disk gets back."""
        return sum(part.size - part.size_after for part in self.repositories)


def gc(
    store: Store, *, dry_run: bool = True, grace: float = GRACE, now: float | None = None,
    forget_before: int | None = None, progress: Tick | None = None,
) -> GcReport:  # fmt: skip
    """Collect the repositories of a store. Only says what would go, unless `dry_run` is False.

    `grace`: what is younger, in seconds, stays. `forget_before`: operations before that time are forgotten, and with
    them the old heads that only they keep. StoreError where the store is damaged: nothing is touched then.
    """
    from rover_store.care.gc_rewrite import rewrite

    tick = progress or (lambda _what, _done, _total: None)
    folders = store_repositories(store.folder)
    if forget_before is not None and not dry_run:
        gc(store, grace=grace, now=now, progress=progress)  # a damaged store does not forget either
    store.index.sync()  # not under the lock: what evidence needs is asked of it
    with _locks(store, folders, dry_run=dry_run) as locks:
        forgotten = 0
        if forget_before is not None:
            from rover_store.care.forget import forget_operations, operations_before

            forgotten = operations_before(store, forget_before)
            if not dry_run and forgotten:
                forget_operations(store, forget_before)
        inventory = Inventory(open_repositories(folders))
        try:
            since = (time.time() if now is None else now) - grace
            wanted(store, inventory, folders, since, tick)
            own = [repository for repository in inventory.repositories if repository.own]
            plans = [plan(inventory, repository) for repository in own]
            if not dry_run:
                for n, repository in enumerate(own):
                    tick("rewriting", n, len(plans))
                    after = rewrite(inventory, repository, locks[n], since)
                    plans[n] = plans[n]._replace(**after)
        finally:
            inventory.close()
        if not dry_run:
            store.objects.refresh(force=True)
            if store.has_evidence_open:
                store.evidence.objects.refresh(force=True)
    if not dry_run and any(kind.kind == "commit" for part in plans for kind in part.gone):
        store.reindex()
    return GcReport(tuple(plans), dry_run, forgotten)


@contextmanager
def _locks(store: Store, folders: Sequence[Path], *, dry_run: bool) -> Iterator[list[RepositoryLock]]:
    """All writers wait: those of the packages, of the evidence and of the audits."""
    with ExitStack() as stack:
        if dry_run:
            yield []
            return
        stack.enter_context(store.lock)
        if store.writing:
            raise UsageError("a write is open in this process; finish it before gc")
        others = [RepositoryLock(git, Refs(git)) for git in folders[1:]]
        for lock in others:
            stack.enter_context(lock)
        yield [store.lock, *others]


def wanted(store: Store, inventory: Inventory, folders: list[Path], since: float, tick: Tick) -> None:
    """Mark what is reached and what is young. StoreError where something that is needed is missing or damaged."""
    for repository in inventory.repositories:
        if repository.broken:
            raise StoreError(f"{repository.name}: {repository.broken[0][1]}", hint="rover fsck, before gc")
    bad = inventory.read(lambda done: tick("reading", done, inventory.count))
    if bad:
        raise StoreError(f"object {bad[0][0]} is damaged ({bad[0][1]})", hint="rover fsck, before gc")
    inventory.mark((inventory.of(name) for name in roots(store, folders)), REACHED)
    for number, links in inventory.missing.items():
        if inventory.marks[number] & REACHED:
            what = f"{KIND_NAME[links[0][1]]} {links[0][0].hex()}"
            raise StoreError(f"{what} is missing, named by {inventory.name(number)}", hint="rover fsck, before gc")
    inventory.mark(_young(inventory, since), YOUNG)


def _young(inventory: Inventory, since: float) -> Iterator[int]:
    for repository in inventory.repositories:
        for pack in repository.packs:
            if pack.modified > since:
                yield from inventory.numbers(pack)
        for name in repository.loose:
            with suppress(FileNotFoundError):  # a dry run has no lock
                if os.stat(loose_path(repository.git, name)).st_mtime > since:
                    yield inventory.of(name)


def plan(inventory: Inventory, repository: Repository) -> Collected:
    """What a collection of one repository does."""
    gone: dict[int, list[int]] = {}
    reached = young = size = 0
    marks, kinds, seen = inventory.marks, inventory.kinds, set[int]()

    def drop(number: int, taken: int) -> None:
        row = gone.setdefault(kinds[number], [0, 0])
        row[0] += number not in seen
        row[1] += taken
        seen.add(number)

    for pack in repository.packs:
        size += pack.size + pack.index_size
        numbers = inventory.numbers(pack)
        found = bytes(map(marks.__getitem__, numbers))
        reached += sum(mark & REACHED for mark in found)
        young += sum(mark & (REACHED | YOUNG) == YOUNG for mark in found)
        if found.translate(_NOTHING).count(1):
            for i, length in pack.sizes():
                if not found[i] & (REACHED | YOUNG):
                    drop(numbers[i], length)
    stay = 0
    for name in repository.loose:
        taken = loose_size(repository.git, name)
        size += taken
        mark = marks[inventory.of(name)] & (REACHED | YOUNG)
        reached, young, stay = reached + (mark & REACHED), young + (mark == YOUNG), stay + (mark == YOUNG)
        if not mark:
            drop(inventory.of(name), taken)
    parts = tuple(Kind(KIND_NAME[k], n, s) for k, (n, s) in sorted(gone.items()))
    packs = min(len(repository.packs), 1 + sum(1 for p in repository.packs if p.size >= 1 << 30))
    return Collected(
        repository.name, reached, young, parts, len(repository.packs), packs,
        len(repository.loose), stay, size, size - sum(k.size for k in parts),
    )  # fmt: skip
