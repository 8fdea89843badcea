"""Care of a store: check, mend, collect, prune, and say what takes the space."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rover_store.fsck_repair import RepairReport
    from rover_store.gc import GcReport
    from rover_store.problems import Problem
    from rover_store.store import Store

Tick = Callable[[str, int, int], None]


def check(store: Store, *, quick: bool, dangling: bool, progress: Tick | None = None) -> tuple[Problem, ...]:
    """All problems of a store, the errors first."""
    from rover_store.fsck import fsck

    rank = {"error": 0, "warning": 1, "info": 2}
    found = fsck(store, quick=quick, dangling=dangling, progress=progress)
    return tuple(sorted(found, key=lambda p: rank[p.severity]))


def mend(store: Store, sources: tuple[Path, ...], progress: Tick | None = None) -> RepairReport:
    """Mend what is derived and bring back objects. The store must be opened again afterwards."""
    from rover_store.fsck_repair import repair

    return repair(store, sources=sources, progress=progress)


def collect(
    store: Store, *, dry_run: bool, grace: float, forget_before: int | None, progress: Tick | None = None
) -> GcReport:
    """Collect what nothing needs, or say what would go."""
    from rover_store.gc import gc

    return gc(store, dry_run=dry_run, grace=grace, forget_before=forget_before, progress=progress)
