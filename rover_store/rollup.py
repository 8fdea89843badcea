"""Rolling small packs together, so that a lookup never asks more than a few dozen.

Records are copied as they are, still deflated. Packs are taken by tiers of size: when a tier holds `LIMIT` of them
they become one, which usually belongs to the next tier, so that each byte is copied a few times in a store's life.
Packs of another git that hold deltas, and packs with a .keep file, stay as they are.
"""

from __future__ import annotations

import os

from rover_store.lock import RepositoryLock
from rover_store.objects import Objects
from rover_store.packs import KIND_NAME, Pack, PackWriter

LIMIT = 40
_FIRST_TIER = 1 << 20
_GROWTH = 8
_LAST_TIER = 1 << 30


def roll_up(objects: Objects, lock: RepositoryLock, limit: int = LIMIT) -> int:
    """Roll packs together where a tier is full. Only under the lock. Returns how many packs went away."""
    removed = 0
    for tier in _full_tiers(objects.packs, limit):
        removed += _merge(objects, lock, tier)
    return removed


def _full_tiers(packs: list[Pack], limit: int) -> list[list[Pack]]:
    tiers: dict[int, list[Pack]] = {}
    if len(packs) < limit:
        return []
    for pack in packs:
        size = os.path.getsize(pack.path)
        if size < _LAST_TIER and not pack.path.with_suffix(".keep").exists():
            tiers.setdefault(_tier(size), []).append(pack)
    return [sorted(tier, key=lambda p: p.name) for _, tier in sorted(tiers.items()) if len(tier) >= limit]


def _tier(size: int) -> int:
    tier, bound = 0, _FIRST_TIER
    while size >= bound:
        tier, bound = tier + 1, bound * _GROWTH
    return tier


def _merge(objects: Objects, lock: RepositoryLock, packs: list[Pack]) -> int:
    ours = [pack for pack in packs if all(kind in KIND_NAME for _, kind, _ in pack.records())]
    if len(ours) < 2:
        return 0
    writer = PackWriter(objects.folder / "pack")
    try:
        for pack in ours:
            for name, _, record in pack.records():
                if name not in writer.entries:
                    writer.add_record(name, record)
        kept = writer.finish(lambda name: lock.write(f"pack {name}"))
    finally:
        writer.abort()
    gone = [pack for pack in ours if pack.name != kept]
    lock.write(*(f"pack {pack.name}" for pack in gone))
    for pack in gone:
        # the index first: a pack without one is invisible, and the journal has its name
        pack.path.with_suffix(".idx").unlink(missing_ok=True)
        pack.path.unlink(missing_ok=True)
    objects.refresh(force=True)
    return len(gone)
