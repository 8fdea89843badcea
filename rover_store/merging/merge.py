"""Merging another revision into a branch: fast-forward, a merge commit, or conflicts that wait for a person.

A merge with conflicts moves no branch: it is kept under refs/rover/merges/BRANCH (`open_merges`) until it is settled.
Evidence is keyed by content, so nothing of it has to be merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from rover_store.commits import encode_commit
from rover_store.errors import PackageError, UsageError
from rover_store.graph import Stale, node
from rover_store.history.ancestry import is_ancestor, merge_bases
from rover_store.merging.files import Favour
from rover_store.merging.open_merges import carry_over, keep_open, open_merge
from rover_store.merging.trees import MergedTree, merge_trees
from rover_store.merging.whole import Outcome, base_tree, merge_revisions
from rover_store.names import package_path
from rover_store.packs import COMMIT
from rover_store.records import Package
from rover_store.records.merge import Conflict, Merge
from rover_store.refs import HEADS

if TYPE_CHECKING:
    from rover_store.store import Store
    from rover_store.write import Transaction

__all__ = ["MergeResult", "MergedTree", "finish", "merge", "merge_trees"]

Status = Literal["up to date", "fast-forward", "merged", "conflicts"]


class MergeResult(NamedTuple):
    """What a merge did. `commit` is where the branch is now; `taken` and `merged` name packages and resources."""

    status: Status
    into: str
    other: str
    ours: str | None
    theirs: str
    commit: str | None
    bases: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    stale: tuple[Stale, ...] = ()


def merge(
    store: Store,
    other: str,
    *,
    into: str | None = None,
    message: str = "",
    author: str | None = None,
    time: int | None = None,
    favour: Favour = None,
    fast_forward: bool = True,
    unrelated: bool = False,
    command: str = "",
) -> MergeResult:
    """Merge a revision into a branch (the current one).

    `favour` settles every conflict for one side. UsageError for histories without a common commit unless
    `unrelated`, and where another merge into the branch is open.
    """
    with store.write(command or f"merge {other}") as tx:
        branch = into or store.current_branch()
        if branch is None:
            raise UsageError("HEAD is detached; name the branch to merge into", hint="rover branch NAME --switch")
        theirs = store.resolve(other)
        ours = tx.ref(HEADS + branch)
        if ours is None:
            if branch != store.current_branch():
                raise UsageError(f"there is no branch {branch}")
            tx.promote(branch, theirs, expect=None)
            return MergeResult("fast-forward", branch, other, None, theirs, theirs)
        bases = tuple(merge_bases(store, ours, theirs))
        if theirs in bases:
            return MergeResult("up to date", branch, other, ours, theirs, ours, bases)
        if not bases and not unrelated:
            raise UsageError(
                f"{other} and {branch} have no commit in common", hint="--allow-unrelated merges them all the same"
            )
        _check_open(store, branch, theirs)
        if ours in bases and fast_forward:
            tx.promote(branch, theirs, expect=ours)
            return MergeResult("fast-forward", branch, other, ours, theirs, theirs, bases)
        base = base_tree(store, tx, bases)
        outcome = merge_revisions(tx, base, tx.load(ours).tree, tx.load(theirs).tree, favour)
        record = Merge(
            into=branch, other=other, ours=ours, theirs=theirs, bases=bases,
            message=message or f"Merge {other} into {branch}", conflicts=outcome.conflicts,
        )  # fmt: skip
        result = _conclude(store, tx, record, outcome, author, time)
    return result._replace(stale=_stale(store, result))


def finish(
    store: Store, tx: Transaction, record: Merge, tree: str, author: str | None = None, time: int | None = None
) -> str:
    """The merge commit: two parents, and the branch moves to it. LostRace where the branch moved meanwhile."""
    when = store.clock() if time is None else time
    trailers = {"Rover-Merge": record.theirs}
    data = encode_commit(tree, (record.ours, record.theirs), record.message, author or store.author, when, trailers)
    commit = tx.add(COMMIT, data)
    tx.promote(record.into, commit, expect=record.ours)
    return commit


def _conclude(
    store: Store, tx: Transaction, record: Merge, outcome: Outcome, author: str | None, time: int | None
) -> MergeResult:
    result = MergeResult(
        "conflicts", record.into, record.other, record.ours, record.theirs, None, record.bases, outcome.taken,
        outcome.merged, outcome.conflicts,
    )  # fmt: skip
    before = open_merge(store, record.into)
    if outcome.conflicts:
        record, tree = carry_over(tx, before, record, outcome.tree)
        keep_open(store, tx, record, tree, before)
        return result._replace(conflicts=record.conflicts)
    if before is not None:
        tx.set_ref(before.ref, None, expect=before.commit)
    return result._replace(status="merged", commit=finish(store, tx, record, outcome.tree, author, time))


def _check_open(store: Store, branch: str, theirs: str) -> None:
    """Another merge that waits is not thrown away; the same one is done again, on what the branch is now."""
    there = open_merge(store, branch)
    if there is None or is_ancestor(store, there.record.theirs, theirs):
        return
    raise UsageError(
        f"a merge of {there.record.other} into {branch} is open",
        hint="settle it with `rover merge --continue DIR`, or drop it with `rover merge --abort`",
    )


def _stale(store: Store, result: MergeResult) -> tuple[Stale, ...]:
    """What is stale in packages that were merged of both sides, and what became stale in others."""
    if result.status != "merged" or result.ours is None or result.commit is None:
        return ()
    old, new = (store.revisions.load(c).tree for c in (result.ours, result.commit))
    touched = {*result.merged, *result.taken}
    bound = {name for name in touched if name.startswith("resources/")}
    if bound and result.commit == store.refs.head_id():  # the index knows who else is bound to them
        touched |= {s.package for s in store.stale() if s.target in bound}
    out: list[Stale] = []
    for name in sorted(touched - bound):
        before = set() if name in result.merged else set(_stale_edges(store, old, name))
        out += [s for s in _stale_edges(store, new, name) if s not in before]
    return tuple(out)


def _stale_edges(store: Store, root: str, name: str) -> list[Stale]:
    """Edges of one package whose target is not at the version that they were built against."""
    item = store.objects.subtree(root, f"{package_path(name)}/package.json")
    if item is None:
        return []
    try:
        edges = Package.load(store.objects.read(item.id), "package.json").edges
    except PackageError:
        return []
    out = []
    for edge in edges:
        path = edge.target if edge.target.startswith("resources/") else f"{package_path(name)}/{edge.target}"
        found = store.objects.subtree(root, path)
        present = found.id if found is not None else None
        if present != edge.version:
            out.append(Stale(name, edge.source, node(name, edge.target), edge.version, present))
    return out
