"""Rolling small packs together, so that a lookup never asks more than a few dozen.

Records are copied as they are, still deflated. Packs are taken by tiers of size: when a tier holds `LIMIT` of them
they become one, which usually belongs to the next tier, so that each byte is copied a few times in a store's life.
Packs of another git that hold deltas, and packs with a .keep file, stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rover_store.errors import StoreError
from rover_store.lock import RepositoryLock
from rover_store.objects import Objects
from rover_store.packs import CHUNK, KIND_NAME, Pack, PackWriter, Record, Run
from rover_store.packs.codec import codec

LIMIT = 40
_FIRST_TIER = 1 << 20
_GROWTH = 8
_LAST_TIER = 1 << 30
#: files of another git beside a pack: those that say hands off, and those that go with it
_NOT_OURS = (".keep", ".promisor", ".mtimes")
_DERIVED = (".rev", ".bitmap", ".mtimes")


def roll_up(objects: Objects, lock: RepositoryLock, limit: int = LIMIT) -> int:
    """Roll packs together where a tier is full. Only under the lock. Returns how many packs went away.

    A tier with damage in it stays as it is: a write of other things must not fail for it.
    """
    removed = 0
    for tier in _full_tiers(objects.packs, limit):
        with suppress(StoreError):
            removed += _merge(objects, lock, tier)
    return removed


def _full_tiers(packs: list[Pack], limit: int) -> list[list[Pack]]:
    tiers: dict[int, list[Pack]] = {}
    for pack in _ours(packs) if len(packs) >= limit else ():
        size = os.path.getsize(pack.path)
        if size < _LAST_TIER:
            tiers.setdefault(_tier(size), []).append(pack)
    return [sorted(tier, key=lambda p: p.name) for _, tier in sorted(tiers.items()) if len(tier) >= limit]


def _ours(packs: list[Pack]) -> list[Pack]:
    """Packs that no file beside them protects."""
    beside = set(os.listdir(packs[0].path.parent)) if packs else set()
    return [pack for pack in packs if not any(pack.name + suffix in beside for suffix in _NOT_OURS)]


def _tier(size: int) -> int:
    tier, bound = 0, _FIRST_TIER
    while size >= bound:
        tier, bound = tier + 1, bound * _GROWTH
    return tier


def _merge(objects: Objects, lock: RepositoryLock, packs: list[Pack]) -> int:
    ours = [pack for pack in packs if pack.plain()]
    return rewrite(objects, lock, packs=ours).removed if len(ours) > 1 else 0


class Rewritten(NamedTuple):
    """What rewriting did: the new pack's name (None where nothing was wanted), objects in it, packs that went away."""

    pack: str | None
    objects: int
    removed: int


def rewrite(
    objects: Objects, lock: RepositoryLock, wanted: Container[bytes] | None = None, packs: Iterable[Pack] | None = None
) -> Rewritten:
    """Copy the wanted objects (all) of some packs (all without .keep) into one new pack; the old packs go away.

    Only under the lock. Records are copied deflated; those of another git that are deltas are written whole.
    A kill at any moment leaves every object in some pack.
    """
    old = _ours(list(objects.packs if packs is None else packs))
    writer = PackWriter(objects.folder / "pack")
    try:
        for pack in old:
            for run in pack.runs():
                _copy_run(objects, pack, run, wanted, writer)
        count = len(writer.entries)
        kept = writer.finish(lambda name: lock.write(f"pack {name}"))
    finally:
        writer.abort()
    gone = [pack for pack in old if pack.name != kept]
    remove_packs(objects.folder / "pack", [pack.name for pack in gone], lock)
    objects.refresh(force=True)
    return Rewritten(kept, count, len(gone))


def remove_packs(folder: Path, names: Sequence[str], lock: RepositoryLock) -> None:
    """Remove packs, whose objects are durable elsewhere. A kill in between leaves what the journal tells of."""
    lock.write(*(f"pack {name}" for name in names))
    beside = set(os.listdir(folder)) if names else set()
    if "multi-pack-index" in beside:  # it names packs that go
        (folder / "multi-pack-index").unlink(missing_ok=True)
    for name in names:
        # the index first: a pack without one is invisible, and the journal has its name
        for suffix in (".idx", *_DERIVED, ".pack"):
            if name + suffix in beside:
                with suppress(FileNotFoundError):
                    os.unlink(f"{folder}/{name}{suffix}")


def _copy_run(objects: Objects, pack: Pack, run: Run, wanted: Container[bytes] | None, writer: PackWriter) -> None:
    asked = [r for r in run.records if r.name not in writer.entries and (wanted is None or r.name in wanted)]
    plain = all(record.kind in KIND_NAME for record in asked)
    if run.data and plain and len({record.name for record in asked}) == len(run.records):
        with memoryview(run.data) as view:
            for record in asked:
                _check(pack, record, codec().crc32(view[record.start - run.start : record.end - run.start]))
        writer.add_run(run.start, run.data, asked)
        return
    for record in asked:
        if record.name not in writer.entries:
            _copy(objects, pack, record, writer)


def _copy(objects: Objects, pack: Pack, record: Record, writer: PackWriter) -> None:
    if record.kind not in KIND_NAME:
        writer.add(*objects.get(record.name.hex()), record.name.hex())
        return
    pieces = range(record.start, record.end, CHUNK)
    writer.copy_record(record.name, (pack.raw(at, min(at + CHUNK, record.end)) for at in pieces))
    _check(pack, record, writer.entries[record.name][1])


def _check(pack: Pack, record: Record, crc: int) -> None:
    if crc != record.crc:  # never carried into a pack whose checksum would call it sound
        raise StoreError(f"{pack.path.name}: object {record.name.hex()} is damaged", hint="rover fsck")
