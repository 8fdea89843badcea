"""From a pinned commit to rows: the verified demonstrations of some packages, curated and rendered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rover_train.dataset.curate import CurationSettings, Curator
from rover_train.dataset.demonstrations import by_package
from rover_train.dataset.prompts import prompts, views
from rover_train.render import DoesNotFit, TemplateDrift
from rover_train.rows import Row

if TYPE_CHECKING:
    from rover_store.store import Store
    from rover_train.render import Renderer


@dataclass(frozen=True, slots=True)
class Material:
    """Rows in order of package and rollout, the rollouts they come from, and what was left out and why."""

    rows: tuple[Row, ...]
    evidence: tuple[str, ...]
    counts: dict[str, int]
    stale_by: dict[str, int]


def material(
    store: Store, commit: str, names: Collection[str], curation: CurationSettings, renderer: Renderer | None
) -> Material:
    """The demonstrations of the named packages. Without a renderer they are counted only.

    Stale and unverified ones are left out, as is what curation drops and what has a turn longer than the window.
    """
    entries = prompts(store, commit, names)
    curator = Curator(curation)
    counts: Counter[str] = Counter(packages=len(entries))
    stale_by: Counter[str] = Counter()
    rows: list[Row] = []
    evidence: list[str] = []
    for found, view in zip(by_package(store, entries), views(store, entries), strict=True):
        chosen = curator(view.instruction, found.demos, found.rate)
        counts["unverified"] += found.unverified
        counts["stale"] += len(found.stale)
        stale_by.update(component for moved in found.stale for component in moved)
        counts["curated_away"] += sum(chosen.dropped.values())
        for demo in chosen.kept:
            try:
                made = renderer.demonstration(view, demo.trajectory) if renderer is not None else ()
            except DoesNotFit:
                counts["longer_than_the_window"] += 1
                continue
            except TemplateDrift as error:
                error.message = f"demonstration of {found.entry.name}: {error.message}"
                raise
            counts["demonstrations"] += 1
            rows += made
            evidence.append(demo.rollout)
    counts["rows"] = len(rows)
    return Material(tuple(rows), tuple(evidence), _told(counts), dict(sorted(stale_by.items())))


_TOLD = ("packages", "demonstrations", "rows", "stale", "unverified", "curated_away", "longer_than_the_window")


def _told(counts: Counter[str]) -> dict[str, int]:
    always: tuple[str, ...] = _TOLD[:3]
    return {name: counts[name] for name in _TOLD if counts[name] or name in always}


def as_facts(found: Material) -> dict[str, Any]:
    """For run.json."""
    return {**found.counts, **({"stale_by": found.stale_by} if found.stale_by else {})}
