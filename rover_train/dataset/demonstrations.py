"""Verified demonstrations of a pinned commit: kept, stale, unverified, each counted (`rover.rollout.demonstrations`).

A demonstration is stale where a component version that it names is not the package's present one: what it shows may
be wrong now. Files are read in the order in which they lie on disk.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from rover.rollout import demonstrations as folder
from rover_store.errors import UsageError
from rover_store.ids import COMPONENTS
from rover_store.records import Demonstration, Pilot, Trajectory, Verdict
from rover_train.dataset.prompts import prompts

if TYPE_CHECKING:
    from rover_store.layout import PackageEntry
    from rover_store.store import Store

#: packages whose files are in memory at the same time
BATCH = 128


@dataclass(frozen=True, slots=True)
class Demo:
    """One verified demonstration. `versions`: component -> tree id, those of the package at the commit."""

    package: str
    workspace: str
    trajectory: Trajectory
    verdict: Verdict
    versions: Mapping[str, str]
    policy: str = ""
    rollout: str = ""


@dataclass(frozen=True, slots=True)
class Rate:
    """Completion of one package: how many of the counted rollouts passed."""

    attempts: int = 0
    passed: int = 0

    @property
    def value(self) -> float | None:
        """In [0, 1]; None where nothing was counted."""
        return self.passed / self.attempts if self.attempts else None


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """Demonstrations of a commit, in order of package and rollout, and what was left out."""

    revision: str
    kept: tuple[Demo, ...] = ()
    #: component -> demonstrations that name another version of it; one may count under several
    stale_by: Mapping[str, int] = field(default_factory=dict)
    stale: int = 0
    #: without a verdict, with one that is not `passed`, or with one that is not of this rollout
    unverified: int = 0
    #: package -> completion counts at the present component versions
    rates: Mapping[str, Rate] = field(default_factory=dict)
    #: packages that were asked for and have no kept demonstration
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What one package offers, from its folder or from the evidence. `demos` are in order of rollout."""

    entry: PackageEntry
    workspace: str
    demos: tuple[Demo, ...] = ()
    #: for each stale one: the components that moved on
    stale: tuple[tuple[str, ...], ...] = ()
    unverified: int = 0
    rate: Rate = Rate()


def demonstrations(store: Store, commit: str, names: Collection[str] | None = None) -> Demonstrations:
    """All verified demonstrations of the named packages (None: all). May be empty: `require` says so in words.

    Everything is in memory at once; `by_package` gives them bit by bit.
    """
    revision = store.resolve(commit)
    return gathered(revision, by_package(store, prompts(store, revision, names)))


def gathered(revision: str, found: Iterable[Found]) -> Demonstrations:
    """What several packages offer, as one."""
    every = list(found)
    stale_by = Counter(c for one in every for moved in one.stale for c in moved)
    return Demonstrations(
        revision=revision,
        kept=tuple(demo for one in every for demo in one.demos),
        stale_by={c: stale_by[c] for c in COMPONENTS if stale_by[c]},
        stale=sum(len(one.stale) for one in every),
        unverified=sum(one.unverified for one in every),
        rates={one.entry.name: one.rate for one in every},
        without=tuple(one.entry.name for one in every if not one.demos),
    )


def require(found: Demonstrations, pattern: str = "*") -> Demonstrations:
    """The same, where there is a demonstration to train on. UsageError: in one line why not, and what helps."""
    if not found.kept:
        raise nothing(found.revision, found.stale, dict(found.stale_by), found.unverified, pattern)
    return found


def nothing(revision: str, stale: int, stale_by: Mapping[str, int], unverified: int, pattern: str = "*") -> UsageError:
    """Why there is nothing to train on, and the command that helps."""
    reasons = []
    if stale:
        moved = ", ".join(f"{n} by {c}" for c, n in stale_by.items())
        reasons.append(f"{stale} are stale ({moved})")
    if unverified:
        reasons.append(f"{unverified} have no verdict")
    said = "has no verified demonstrations" + (f": {', '.join(reasons)}" if reasons else "")
    hint = f"gather some: rover collect {shlex.quote(pattern)} --policy solver"
    return UsageError(f"{revision[:12]} {said}", hint=hint)


def by_package(store: Store, entries: Iterable[PackageEntry]) -> Iterator[Found]:
    """What each package offers, in the given order, a few hundred packages in memory at a time."""
    waiting = iter(entries)
    while some := list(islice(waiting, BATCH)):
        files = {entry.name: _files(store, entry) for entry in some}
        data = dict(store.objects.read_many(blob for level in files.values() for blob in level.values()))
        for entry in some:
            yield _found(entry, {path: data[blob] for path, blob in files[entry.name].items()})


def _files(store: Store, entry: PackageEntry) -> dict[str, str]:
    """package.json and the JSON files of demonstrations/: path -> blob id."""
    record = store.objects.list_tree(entry.tree)["package.json"]
    return {"package.json": record.id, **folder.files_of(store, entry.tree)}


def _found(entry: PackageEntry, files: Mapping[str, bytes]) -> Found:
    workspace = str(json.loads(files["package.json"]).get("workspace") or "")
    demos: list[Demo] = []
    stale: list[tuple[str, ...]] = []
    unverified, rate = 0, Rate()
    for path, data in files.items():
        where = f"{entry.name}/{path}"
        if path == f"{folder.FOLDER}/{folder.PILOT}":
            rate = rate_of(Pilot.load(data, where), entry)
        elif path != "package.json":
            read = folder.demonstration_of(data, where)
            # under another name than its own a rollout could count twice
            if read is None or path != folder.path_of(read.rollout) or not folder.is_verified(read):
                unverified += 1
            elif moved := folder.moved_on(read.components, entry):
                stale.append(moved)
            else:
                demos.append(_demo(read, entry.name, workspace))
    demos.sort(key=lambda d: d.rollout)
    return Found(entry, workspace, tuple(demos), tuple(stale), unverified, rate)


def rate_of(pilot: Pilot, entry: PackageEntry) -> Rate:
    """The counts of all policies together; none where they hold for other versions."""
    if folder.moved_on(pilot.components, entry):
        return Rate()
    return Rate(sum(c.attempts for c in pilot.counts), sum(c.passed for c in pilot.counts))


def _demo(read: Demonstration, package: str, workspace: str) -> Demo:
    return Demo(
        package=package, workspace=workspace, trajectory=read.trajectory, verdict=read.verdict,
        versions={str(c): tree for c, tree in read.components.items()}, policy=read.policy, rollout=read.rollout,
    )  # fmt: skip
