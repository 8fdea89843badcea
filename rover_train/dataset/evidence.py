"""Passed rollouts of the evidence as demonstrations, whether anybody collected them or not.

What counts is what the packages of the pinned commit are now: a rollout belongs to a package by its context, task and
harness, its verdict by its verifier. Attackers (`null:`) and errors of the infrastructure are left out of everything.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from rover.rollout.demonstrations import content_id
from rover_store.ids import COMPONENTS
from rover_train.dataset.demonstrations import Demo, Found, Rate

if TYPE_CHECKING:
    from rover_store.layout import PackageEntry
    from rover_store.store import Store

Versions = tuple[Any, ...]
_SQL = """SELECT r.rollout_id, r.package, r.context, r.task, r.harness, v.verifier, v.outcome, r.policy, r.pruned
FROM rollouts r JOIN verdicts v ON v.rollout_id = r.rollout_id
WHERE r.policy NOT LIKE 'null:%' AND v.outcome IN ('passed', 'failed', 'policy_error') ORDER BY 1"""


def by_evidence(store: Store, entries: Iterable[PackageEntry], policy: str = "*") -> Iterator[Found]:
    """What each package offers, in the given order; only rollouts of policies whose id matches a glob.

    Of rollouts that say the same, the first by id is taken. A bounded number of them is in memory at a time.
    """
    wanted = list(entries)
    offers = _offers(store, wanted, policy)
    pairs = ((rollout, entry.components["verifier"]) for entry in wanted for rollout in offers[entry.name].passed)
    rollouts = store.evidence.many(pairs)
    held = next(rollouts, None)
    for entry in wanted:
        offer = offers[entry.name]
        demos: dict[str, Demo] = {}
        left = set(offer.passed)
        workspace = _workspace(store, entry)
        while held is not None and held[1].rollout in left and held[1].verifier == entry.components["verifier"]:
            left.remove(held[1].rollout)
            trajectory, verdict = held
            demos.setdefault(
                content_id(trajectory),
                Demo(entry.name, workspace, trajectory, verdict, dict(entry.components), trajectory.key.policy,
                     verdict.rollout),
            )  # fmt: skip
            held = next(rollouts, None)
        yield Found(entry, workspace, tuple(demos.values()), tuple(offer.stale), 0, Rate(offer.counted, offer.passes))


class _Offer:
    """What the index says of one package."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.stale: list[tuple[str, ...]] = []
        self.counted = self.passes = 0


def _offers(store: Store, entries: Sequence[PackageEntry], policy: str) -> dict[str, _Offer]:
    offers: dict[str, _Offer] = defaultdict(_Offer)
    at = {entry.name: entry for entry in entries}
    owner: dict[Versions, list[str]] = defaultdict(list)
    for entry in entries:
        owner[_versions(entry)].append(entry.name)
    for rollout, package, *versions, outcome, who, pruned in store.query(_SQL, timeout=None).rows:
        if not fnmatchcase(who, policy):
            continue
        names = owner.get(tuple(versions), ())
        for name in names:
            offers[name].counted += 1
            offers[name].passes += outcome == "passed"
            if outcome == "passed" and not pruned:
                offers[name].passed.append(rollout)
        if not names and package in at and outcome == "passed":
            now = _versions(at[package])
            moved = tuple(c for c, old, new in zip(COMPONENTS, versions, now, strict=True) if old != new)
            offers[package].stale.append(moved)
    return offers


def _versions(entry: PackageEntry) -> Versions:
    return tuple(entry.components.get(c) for c in COMPONENTS)


def _workspace(store: Store, entry: PackageEntry) -> str:
    item = store.objects.list_tree(entry.tree)["package.json"]
    return str(json.loads(store.objects.read(item.id)).get("workspace") or "")
