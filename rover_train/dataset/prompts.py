"""Prompts of a pinned commit: the packages that RL rolls out on."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from rover_store.errors import NotFound

if TYPE_CHECKING:
    from rover_store.layout import PackageEntry
    from rover_store.store import Store


def prompts(store: Store, commit: str, names: Collection[str] | None = None) -> list[PackageEntry]:
    """The named packages of a commit (None: all), sorted by name. NotFound names one that is not there."""
    found = {entry.name: entry for entry in store.packages(store.resolve(commit))}
    wanted = sorted(found if names is None else set(names))
    for name in wanted:
        if name not in found:
            raise NotFound("package", name, hint=f"in {commit[:12]}")
    return [found[name] for name in wanted]
