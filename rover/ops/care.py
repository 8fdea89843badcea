"""Care of a store: check, mend, collect, prune, and say what takes the space."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rover_store.care.fsck_repair import RepairReport
    from rover_store.care.gc import GcReport
    from rover_store.care.problems import Problem
    from rover_store.care.prune import PruneReport
    from rover_store.care.stats import Stats
    from rover_store.care.usage import EvidenceUsage, PackageUsage
    from rover_store.store import Store

Tick = Callable[[str, int, int], None]


def check(store: Store, *, quick: bool, dangling: bool, progress: Tick | None = None) -> tuple[Problem, ...]:
    """All problems of a store, the errors first."""
    from rover_store.care.fsck import fsck

    rank = {"error": 0, "warning": 1, "info": 2}
    found = fsck(store, quick=quick, dangling=dangling, progress=progress)
    return tuple(sorted(found, key=lambda p: rank[p.severity]))


def mend(store: Store, sources: tuple[Path, ...], progress: Tick | None = None) -> RepairReport:
    """Mend what is derived and bring back objects. The store must be opened again afterwards."""
    from rover_store.care.fsck_repair import repair

    return repair(store, sources=sources, progress=progress)


def collect(
    store: Store, *, dry_run: bool, grace: float, forget_before: int | None, progress: Tick | None = None
) -> GcReport:
    """Collect what nothing needs, or say what would go."""
    from rover_store.care.gc import gc

    return gc(store, dry_run=dry_run, grace=grace, forget_before=forget_before, progress=progress)


def measure(store: Store, biggest: int, progress: Tick | None = None) -> Stats:
    """What a store holds and what takes the space."""
    from rover_store.care.stats import stats

    return stats(store, biggest=biggest, progress=progress)


def usage_of_packages(store: Store, pattern: str, rev: str, progress: Tick | None = None) -> list[PackageUsage]:
    """Bytes by package. UsageError where a glob matches nothing in a store that has packages."""
    from rover_store.care.usage import package_usage
    from rover_store.errors import UsageError

    found = package_usage(store, pattern, rev, progress=progress)
    if not found and pattern != "*":
        raise UsageError(f"no package of {rev} matches {pattern!r}", hint="`rover list` shows all names")
    return found


def usage_of_evidence(store: Store, pattern: str, progress: Tick | None = None) -> list[EvidenceUsage]:
    """Bytes of evidence by package and policy."""
    from rover_store.care.usage import evidence_usage

    return evidence_usage(store, pattern, progress=progress)


def prune(
    store: Store, pattern: str, *, policy: str | None, before: int | None, dry_run: bool, progress: Tick | None = None
) -> PruneReport:
    """Drop the turns and workspaces of rollouts, or say what would go."""
    from rover_store.care.prune import prune_trajectories

    return prune_trajectories(store, pattern, policy=policy, before=before, dry_run=dry_run, progress=progress)
