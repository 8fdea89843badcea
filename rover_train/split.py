"""Packages of a pinned commit, selected by glob and tag and split by workspace into train, validation and held-out.

What may not straddle two parts is a cluster: all packages of a workspace, and all workspaces that share a resource
(so that no file of a held-out package was seen in training). A package that names no workspace is clustered by the
resources it lists and the source files it was built from; with neither, it is a cluster of its own.

The same commit, selection and seed give the same split. Needs no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from rover_store.errors import PackageError, UsageError
from rover_store.ids import digest
from rover_store.records import Split, SplitPart
from rover_train import places
from rover_train.selection import Described, select, selected

if TYPE_CHECKING:
    from rover_store.store import Store

PARTS = ("train", "validation", "held_out")
SHARES = (0.8, 0.1, 0.1)


def make(
    store: Store, commit: str, *, pattern: str = "*", tags: Sequence[str] = (),
    shares: Sequence[float] = SHARES, seed: int = 0,
) -> Split:  # fmt: skip
    """The split of the selected packages of a commit. UsageError where nothing is selected or a part stays empty.

    `shares` are of packages: train, validation, held-out. A share of 0 asks for an empty part.
    """
    shares = checked_shares(shares)
    revision, found = selected(store, commit, pattern, tags)
    clusters = _clusters(found)
    wanted = [part for part, share in zip(PARTS, shares, strict=True) if share > 0]
    if len(clusters) < len(wanted):
        raise UsageError(
            f"{_counted(len(found), 'package')} in {_counted(len(clusters), 'cluster')} of workspaces cannot fill "
            f"{', '.join(p.replace('_', '-') for p in wanted)}",
            hint="more workspaces are needed, or a share of 0: packages of one workspace stay together",
        )
    parts = _assigned(clusters, shares, seed)
    return Split(
        revision=revision, pattern=pattern, tags=tuple(tags), seed=seed, shares=shares,
        merged=_merged(clusters), **_records(parts),
    )  # fmt: skip


def by_globs(
    store: Store, commit: str, *, train: Sequence[str], validation: Sequence[str] = (), held_out: Sequence[str] = (),
    tags: Sequence[str] = (),
) -> Split:  # fmt: skip
    """A split whose parts are named by globs. UsageError where a glob matches nothing, or a cluster would straddle."""
    revision, found = selected(store, commit, "*", tags)
    parts: dict[str, list[Described]] = {}
    for name, globs in zip(PARTS, (train, validation, held_out), strict=True):
        for glob in globs:
            if not any(fnmatchcase(one.entry.name, glob) for one in found):
                raise UsageError(f"{name.replace('_', '-')}: no package of {revision[:12]} matches {glob!r}")
        parts[name] = [one for one in found if any(fnmatchcase(one.entry.name, glob) for glob in globs)]
    _refuse_straddling(parts)
    clusters = _clusters([one for part in parts.values() for one in part])
    return Split(
        revision=revision, pattern=" ".join((*train, *validation, *held_out)), tags=tuple(tags),
        merged=_merged(clusters), **_records(parts),
    )  # fmt: skip


def load(path: Path) -> Split:
    """A split that was written as JSON. UsageError where there is none, PackageError where it is malformed, or where
    its parts are not apart."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: no split can be read there: {error.strerror}") from None
    split = Split.load(data, str(path))
    _refuse_twice(split, path)
    return split


def write(split: Split, path: Path) -> None:
    """Store a split as JSON. UsageError where that cannot be."""
    save(path, split.dump())


def save(path: Path, data: bytes) -> None:
    """Write a file that a person named. UsageError where that cannot be."""
    places.refuse(path)
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from None


def names_of(
    store: Store, commit: str, pattern: str, tags: Sequence[str], split: Path | None, part: str
) -> list[str]:
    """Names of the packages that are selected, and in a part of a split that was written before. UsageError."""
    names = [entry.name for entry in select(store, commit, pattern, tags)]
    if split is None:
        return names
    if part.replace("-", "_") not in PARTS:
        raise UsageError(f"{part!r} is no part of a split: train, validation or held-out")
    made = load(split)
    if made.revision != commit:
        hint = f"name that revision: --revision {made.revision[:12]}; or make a new split"
        raise UsageError(f"{split}: a split of {made.revision[:12]}, not of {commit[:12]}", hint=hint)
    chosen = sorted(set(names) & set(made.part(part).packages))
    if not chosen:
        raise UsageError(f"{split}: no package of its {part} part is selected by {pattern!r}")
    return chosen


def narrowed(store: Store, split: Split, *, pattern: str = "*", tags: Sequence[str] = ()) -> Split:
    """A split with the selected packages alone; each stays in the part that it was in. UsageError where none is left.

    So that sets of tasks can share one split: what is held out for one was seen in training for none.
    """
    kept = {one.entry.name: one for one in selected(store, split.revision, pattern, tags)[1]}
    parts = {part: [kept[n] for n in split.part(part).packages if n in kept] for part in PARTS}
    if not any(parts.values()):
        raise UsageError(f"no package of the split is selected by {' '.join((pattern, *tags))!r}")
    return split.model_copy(update={"pattern": pattern, "tags": tuple(tags), **_records(parts)})


# --- clusters ------------------------------------------------------------------------------------------------
def _clusters(found: Sequence[Described]) -> list[list[Described]]:
    """Packages that hang together by any chain of ties, each cluster sorted by name, the clusters by their first."""
    above: dict[str, str] = {}

    def top(tie: str) -> str:
        while above.setdefault(tie, tie) != tie:
            above[tie] = tie = above[above[tie]]
        return tie

    for one in found:
        first, *rest = sorted(one.ties)
        for tie in rest:
            above[top(tie)] = top(first)
    clusters: dict[str, list[Described]] = {}
    for one in sorted(found, key=lambda d: d.entry.name):
        clusters.setdefault(top(min(one.ties)), []).append(one)
    return list(clusters.values())


def _assigned(clusters: Sequence[list[Described]], shares: Sequence[float], seed: int) -> dict[str, list[Described]]:
    """Each cluster, in an order that the seed gives, to the part that lacks most packages; then none is empty."""
    order = sorted(clusters, key=lambda c: digest([seed, [one.entry.name for one in c]]))
    total = sum(map(len, clusters)) / sum(shares)
    lacking = {part: share * total for part, share in zip(PARTS, shares, strict=True)}
    given: dict[str, list[list[Described]]] = {part: [] for part in PARTS}
    for cluster in order:
        part = max(PARTS, key=lambda p: (lacking[p], -PARTS.index(p)))
        given[part].append(cluster)
        lacking[part] -= len(cluster)
    for part, share in zip(PARTS, shares, strict=True):
        if share > 0 and not given[part]:  # from the part that has most: its smallest cluster
            source = max(PARTS, key=lambda p: (len(given[p]), -PARTS.index(p)))
            smallest = min(given[source], key=len)
            given[source].remove(smallest)
            given[part].append(smallest)
    return {part: [one for cluster in some for one in cluster] for part, some in given.items()}


def _refuse_straddling(parts: Mapping[str, Sequence[Described]]) -> None:
    """UsageError where a part that was asked for is empty, or where two parts share a package or a tie."""
    holder: dict[str, tuple[str, str]] = {}
    for part, some in parts.items():
        for one in some:
            for tie in (f"package:{one.entry.name}", *sorted(one.ties)):
                other, name = holder.setdefault(tie, (part, one.entry.name))
                if other != part:
                    a, b = other.replace("_", "-"), part.replace("_", "-")
                    said = f"{one.entry.name} is in both" if name == one.entry.name else (
                        f"{name} and {one.entry.name} share {tie.removeprefix('package:')}"
                    )
                    raise UsageError(f"{a} and {b} are not apart: {said}")
    if not parts["train"]:
        raise UsageError("the train part is empty")


def _refuse_twice(split: Split, path: Path) -> None:
    """PackageError where a package or a workspace of a record is in two parts, or twice in one."""
    for what, field in (("", "packages"), ("workspace ", "workspaces")):
        found = [(name, part.replace("_", "-")) for part in PARTS for name in getattr(split.part(part), field)]
        where: dict[str, str] = {}
        for name, part in found:
            if name in where:
                said = f"{part} twice" if where[name] == part else f"{where[name]} and {part}"
                raise PackageError(str(path), "", f"{what}{name} is in {said}")
            where[name] = part


def _merged(clusters: Iterable[Sequence[Described]]) -> tuple[tuple[str, ...], ...]:
    groups = (sorted({one.workspace for one in cluster if one.workspace}) for cluster in clusters)
    return tuple(tuple(group) for group in sorted(groups) if len(group) > 1)


def _records(parts: Mapping[str, Sequence[Described]]) -> dict[str, SplitPart]:
    return {
        part: SplitPart(
            workspaces=tuple(sorted({one.workspace for one in some if one.workspace})),
            packages=tuple(sorted(one.entry.name for one in some)),
        )
        for part, some in parts.items()
    }


def checked_shares(shares: Sequence[float]) -> tuple[float, float, float]:
    """Three shares of which the first is above 0. UsageError otherwise."""
    if len(shares) != 3 or any(not 0 <= s < float("inf") for s in shares) or shares[0] <= 0:
        raise UsageError("shares are three numbers, train, validation and held-out; train is above 0")
    return (float(shares[0]), float(shares[1]), float(shares[2]))


def parsed_shares(text: str) -> tuple[float, float, float]:
    """Shares as typed: three numbers with commas."""
    try:
        return checked_shares([float(word) for word in text.split(",")])
    except ValueError:
        raise UsageError(f"{text!r}: shares are three numbers with commas, such as 0.8,0.1,0.1") from None


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
