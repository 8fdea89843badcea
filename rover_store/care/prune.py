"""Shallow evidence: what a rollout did is dropped, what came of it stays.

Of a pruned rollout the turns, the workspace trees and the last message go; its key, package, end, usage and all its
verdicts stay, so that recorded scores remain comparable and nothing that was graded runs again. Its record says
`pruned`: the tree of its end state. Grading it with a new verifier needs the end state, so it is run again then.

The evidence's chain of commits held the old trees: it is written again, one commit a day, so that `gc` can free them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from rover_store.care.inventory import Inventory, open_repositories, store_repositories
from rover_store.commits import AUTHOR, Commit, encode_commit, parse_commit
from rover_store.errors import UsageError
from rover_store.layout import fanned
from rover_store.lock import RepositoryLock
from rover_store.names import rollout_path
from rover_store.packs import BLOB, COMMIT, PackWriter
from rover_store.publish import publish
from rover_store.refs import EVIDENCE
from rover_store.trees import FILE, Level, TreeItem, edit_tree, parse_tree

if TYPE_CHECKING:
    from rover_store.evidence import Evidence
    from rover_store.records import Trajectory
    from rover_store.store import Store

_DAY = 86400
_KEPT, _HERE = 1, 2
Tick = Callable[[str, int, int], None]


class PrunedPart(NamedTuple):
    """Rollouts of one package by one policy that go, with their turns and the verdicts that stay."""

    package: str
    policy: str
    rollouts: int
    turns: int
    verdicts: int


class PruneReport(NamedTuple):
    """What was pruned, or would be. `size`: bytes that `gc` frees afterwards."""

    parts: tuple[PrunedPart, ...]
    rollouts: tuple[str, ...]
    size: int
    dry_run: bool


def prune_trajectories(
    store: Store, pattern: str = "*", *, policy: str | None = None, before: int | None = None, dry_run: bool = True,
    progress: Tick | None = None,
) -> PruneReport:  # fmt: skip
    """Prune the rollouts of packages that match a glob; of a policy; recorded before a time.

    Only says what would go, unless `dry_run` is False. UsageError while a write is open.
    """
    tick = progress or (lambda _what, _done, _total: None)
    evidence = store.evidence
    with RepositoryLock(evidence.git, evidence.refs) as lock:
        head = evidence.refs.get(EVIDENCE)
        found = dict(_matching(evidence, pattern, policy, before, tick)) if head else {}
        size = _size(store, set(found), tick) if found else 0
        parts = _parts(evidence, found)
        if found and head is not None and not dry_run:
            if store.writing:
                raise UsageError("a write is open in this process; finish it before pruning")
            _write(store, evidence, lock, head, found)
    if found and not dry_run:
        evidence.objects.refresh(force=True)
        store.after_write()
    return PruneReport(parts, tuple(sorted(found)), size, dry_run)


def _matching(
    evidence: Evidence, pattern: str, policy: str | None, before: int | None, tick: Tick
) -> Iterator[tuple[str, Trajectory]]:
    """Rollouts that have something to drop."""
    allowed = None if before is None else _recorded_before(evidence, before)
    for n, rollout in enumerate(evidence.ids()):
        if allowed is not None and rollout not in allowed:
            continue
        trajectory = evidence.get_rollout(rollout)
        if n % 256 == 0:
            tick("reading", n, 0)
        if trajectory is None or trajectory.pruned or not fnmatchcase(trajectory.package, pattern):
            continue
        if policy is None or fnmatchcase(trajectory.key.policy, policy):
            yield rollout, trajectory


def _chain(evidence: Evidence) -> Iterator[Commit]:
    """Commits of the evidence, the newest first."""
    here = evidence.refs.get(EVIDENCE)
    while here is not None:
        commit = parse_commit(here, evidence.objects.read_commit(here))
        yield commit
        here = commit.parents[0] if commit.parents else None


def _recorded_before(evidence: Evidence, time: int) -> set[str]:
    tree = next((commit.tree for commit in _chain(evidence) if commit.time < time), None)
    return set(_folders(evidence, tree)) if tree else set()


def _folders(evidence: Evidence, root: str) -> dict[str, str]:
    """Rollout -> tree of its folder."""
    return {name: tree for _, name, tree in fanned(evidence.objects, root, "rollouts")}


def _parts(evidence: Evidence, found: dict[str, Trajectory]) -> tuple[PrunedPart, ...]:
    sums: dict[tuple[str, str], list[int]] = {}
    root = evidence.root()
    for rollout, trajectory in found.items():
        row = sums.setdefault((trajectory.package, trajectory.key.policy), [0, 0, 0])
        item = evidence.objects.subtree(root, f"{rollout_path(rollout)}/verdicts") if root else None
        verdicts = len(evidence.objects.list_tree(item.id)) if item is not None else 0
        for i, more in enumerate((1, len(trajectory.turns), verdicts)):
            row[i] += more
    return tuple(PrunedPart(*key, *row) for key, row in sorted(sums.items()))


# --- writing ---------------------------------------------------------------------------------------------
def _write(
    store: Store, evidence: Evidence, lock: RepositoryLock, head: str, found: dict[str, Trajectory]
) -> None:
    objects = evidence.objects
    writer = PackWriter(evidence.git / "objects" / "pack")

    def level(tree: str) -> Level:
        return parse_tree(writer.get(tree)[1]) if tree in writer else objects.list_tree(tree)

    try:
        stubs = {rollout: writer.add(BLOB, _stub(trajectory).dump()) for rollout, trajectory in found.items()}
        last: str | None = None
        for commit in _days(evidence):
            there = _folders(evidence, commit.tree)
            edits: dict[str, TreeItem | None] = {}
            for rollout in stubs.keys() & there.keys():
                place = rollout_path(rollout)
                edits |= {f"{place}/start": None, f"{place}/turns": None}
                edits[f"{place}/trajectory.json"] = TreeItem(FILE, stubs[rollout])
            tree = edit_tree(commit.tree, edits, level, writer.add) if edits else commit.tree
            data = encode_commit(tree, [last] if last else [], commit.message, AUTHOR, commit.time)
            last = writer.add(COMMIT, data)
        publish(lock, evidence.refs, writer, {EVIDENCE: (head, last)}, lambda: objects.refresh(force=True))
    finally:
        writer.abort()


def _stub(trajectory: Trajectory) -> Trajectory:
    """What stays of a rollout."""
    gone = {"turns": (), "final_message": "", "irregular": None, "pruned": trajectory.end_tree}
    return trajectory.model_copy(update=gone)


def _days(evidence: Evidence) -> list[Commit]:
    """The last commit of every day of the chain, the oldest first."""
    days: dict[int, Commit] = {}
    for commit in _chain(evidence):
        days.setdefault(commit.time // _DAY, commit)
    return [days[day] for day in sorted(days)]


# --- what it frees ---------------------------------------------------------------------------------------
def _size(store: Store, gone: set[str], tick: Tick) -> int:
    """Bytes of the evidence that only these rollouts need."""
    evidence = store.evidence
    inventory = Inventory(open_repositories(store_repositories(store.folder)))
    try:
        inventory.read(lambda done: tick("measuring", done, inventory.count))
        kept, root = [], evidence.root()
        for rollout, tree in (_folders(evidence, root) if root else {}).items():
            if rollout not in gone:
                kept.append(inventory.of(tree))
            else:
                verdicts = evidence.objects.list_tree(tree).get("verdicts")
                kept += [inventory.of(verdicts.id)] if verdicts is not None else []
                inventory.mark([inventory.of(tree)], _HERE)
        inventory.mark([inventory.of(value) for value in store.refs.all().values()], _KEPT)
        inventory.mark(kept, _KEPT)
        return sum(
            length
            for repository in inventory.repositories
            if repository.name == evidence.git.name
            for pack in repository.packs
            for number, length in pack.sizes()
            if inventory.marks[inventory.number(pack.name_at(number))] == _HERE
        )
    finally:
        inventory.close()
