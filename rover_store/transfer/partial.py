"""Partial clones: the packages that match some globs, what they need, and a real git history of just that.

Each commit of the source that touches what is held is written again with the same author, time and message and a
trailer `Rover-Source: ID`; commits that touch nothing of it are left out. Ids of packages, components and resources
are the same as in the source, so evidence fits; ids of commits are not. The same source and globs give the same ids.

A push replays the commits that this store made on the source's whole branch, three-way by package, and then takes
the branch as the source now has it. What the clone does not hold is never touched.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rover_store import layout
from rover_store.commits import Commit, encode_commit, parse_commit
from rover_store.errors import UsageError
from rover_store.history.ancestry import between, is_ancestor
from rover_store.merging.trees import bound_resources
from rover_store.merging.whole import merge_revisions
from rover_store.names import package_path
from rover_store.objects import Objects
from rover_store.packs import COMMIT, TREE
from rover_store.refs import HEADS, REMOTES
from rover_store.scratch import scratch
from rover_store.store import Store
from rover_store.transfer import wire
from rover_store.transfer.copying import checked, copy_objects
from rover_store.transfer.remotes import Place, Remote
from rover_store.transfer.transfer import Transferred, Update, accepted, refs_of
from rover_store.trees import FOLDER, TreeItem

if TYPE_CHECKING:
    from rover_store.write import Transaction

SOURCE = "Rover-Source"


class _Kept(NamedTuple):
    """A commit of the source and what became of it: the new commit and tree, and what its packages are bound to."""

    commit: str | None
    tree: str | None
    bound: dict[str, frozenset[str]]


def fetch_part(store: Store, remote: Remote, where: Place, *, command: str) -> Transferred:
    """Fetch the branches of a remote, filtered. Tags name whole revisions and stay where they are."""
    with _whole(store, where) as source, store.write(command) as tx:
        refs, _ = refs_of(Place("git", where.url, source))
        objects = Objects(source)
        part = _Part(objects, tx, remote.packages, _known(store, remote.name))
        updates = []
        for ref, tip in refs.items():
            if not ref.startswith(HEADS):
                continue
            own = f"{REMOTES}{remote.name}/{ref.removeprefix(HEADS)}"
            old, new = tx.ref(own), part.rewrite(tip)
            if new is not None and new != old:
                tx.move_ref(own, old, new)
                updates.append(Update(own.removeprefix(REMOTES), old, new))
    return Transferred(remote.name, where.shown, tuple(updates))


def push_part(store: Store, remote: Remote, where: Place, branch: str, *, command: str) -> Transferred:
    """Replay this store's own commits of a branch on the source's whole branch, and take it back filtered.

    UsageError where both changed a package so that it does not merge, or where the clone is behind: pull first.
    """
    tracking = f"{REMOTES}{remote.name}/{branch}"
    mine, base = store.refs.get(HEADS + branch), store.refs.get(tracking)
    assert mine is not None
    fresh = _own(store, mine, base)
    if not fresh:
        return Transferred(remote.name, where.shown)
    with _whole_store(store, where) as whole:
        old = whole.refs.get(HEADS + branch)
        new = _replay(store, whole, branch, fresh, command)
        if where.kind != "rover":
            accepted(wire.push(whole.git, where, [f"{new}:{HEADS}{branch}"]), branch, where)
        with store.write(command) as tx:
            part = _Part(whole.objects, tx, remote.packages, _known(store, remote.name))
            back = part.rewrite(new)
            assert back is not None
            tx.move_ref(tracking, tx.ref(tracking), back)
            tx.move_ref(HEADS + branch, mine, back)  # the same packages, under the ids of the source's history
    return Transferred(
        remote.name, where.shown, (Update(f"{remote.name}/{branch}", old, new),), pushed=(HEADS + branch,)
    )


# --- filtering -------------------------------------------------------------------------------------------
class _Part:
    """Rewrites commits of a source into a transaction."""

    def __init__(self, source: Objects, tx: Transaction, globs: tuple[str, ...], known: dict[str, str]) -> None:
        self._source = source
        self._tx = tx
        self._globs = globs
        self._known = known
        self._done: dict[str, _Kept] = {}

    def rewrite(self, tip: str) -> str | None:
        """The new id of a commit, None where nothing before it holds anything of the part."""
        waiting = [tip]
        while waiting:
            here = waiting[-1]
            if here in self._done:
                waiting.pop()
                continue
            commit = self._load(here)
            open_ = [p for p in commit.parents if p not in self._done]
            if here in self._known and open_:
                self._done[here] = self._resumed(here)
            elif open_:
                waiting += open_
            else:
                self._done[here] = self._one(commit)
        return self._done[tip].commit

    def _resumed(self, here: str) -> _Kept:
        """A commit that an earlier fetch has written: its part is read back, its history is not walked again."""
        new = self._known[here]
        tree = self._tx.load(new).tree
        there = layout.changed_packages(self._tx, None, tree)
        bound = {c.name: frozenset(bound_resources(self._tx, c.new)) for c in there if c.new is not None}
        return _Kept(new, tree, bound)

    def _one(self, commit: Commit) -> _Kept:
        parents = [self._done[p] for p in commit.parents]
        first = parents[0] if parents else _Kept(None, None, {})
        before = self._load(commit.parents[0]).tree if commit.parents else None
        bound = self._bound(first.bound, before, commit.tree)
        tree = self._tree(first, bound, before, commit.tree)
        kept = list(dict.fromkeys(p.commit for p in parents if p.commit is not None))
        if len(kept) <= 1 and tree == (first.tree if first.commit in kept else None):
            return _Kept(kept[0] if kept else None, tree, bound)
        if not kept and not bound:
            return _Kept(None, tree, bound)
        return _Kept(self._commit(commit, tree, kept), tree, bound)

    def _bound(
        self, old: dict[str, frozenset[str]], before: str | None, after: str
    ) -> dict[str, frozenset[str]]:
        """Held package -> the resources that its context names."""
        changed = [c for c in layout.changed_packages(self._source, before, after) if self._held(c.name)]
        if not changed:
            return old
        out = dict(old)
        for change in changed:
            if change.new is None:
                out.pop(change.name, None)
            else:
                out[change.name] = frozenset(bound_resources(self._source, change.new))
        return out

    def _tree(self, first: _Kept, bound: dict[str, frozenset[str]], before: str | None, after: str) -> str:
        edits: dict[str, TreeItem | None] = {}
        for change in layout.changed_packages(self._source, before, after):
            if self._held(change.name):
                edits[package_path(change.name)] = self._folder(change.new)
        needed: set[str] = set().union(*bound.values()) if bound else set()
        had: set[str] = set().union(*first.bound.values()) if first.bound else set()
        changed = {f"resources/{c.name}" for c in layout.changed_resources(self._source, before, after)}
        for path in sorted((needed ^ had) | (needed & changed)):
            item = self._source.subtree(after, path) if path in needed else None
            edits[path] = self._folder(item.id) if item is not None and item.is_folder else None
        tops = [self._source.list_tree(tree) if tree else {} for tree in (before, after)]
        for name in sorted(tops[0].keys() | tops[1].keys()):
            if name not in ("packages", "resources") and tops[0].get(name) != tops[1].get(name):
                edits[name] = self._copied(tops[1].get(name))
        start = first.tree
        if not edits:
            return start or self._tx.add(TREE, b"")
        plain: Mapping[str, TreeItem | None] = edits
        return self._tx.edit_tree(start, plain)

    def _held(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._globs)

    def _folder(self, tree: str | None) -> TreeItem | None:
        return None if tree is None else self._copied(TreeItem(FOLDER, tree))

    def _copied(self, item: TreeItem | None) -> TreeItem | None:
        """An entry with everything below it, taken over into this store."""
        if item is not None:
            copy_objects(self._source, [item.id], self._tx.exists, self._tx)
        return item

    def _commit(self, found: Commit, tree: str, parents: list[str]) -> str:
        """Author, times and message byte for byte, and where it came from."""
        raw = self._source.read_commit(found.id)
        head, _, message = raw.partition(b"\n\n")
        kept = [line for line in head.split(b"\n") if line.startswith((b"author ", b"committer ", b"encoding "))]
        lines = [b"tree " + tree.encode(), *(b"parent " + p.encode() for p in parents), *kept]
        gap = b"\n" if found.trailers else b"\n\n"
        text = message.rstrip(b"\n") + gap + f"{SOURCE}: {found.id}\n".encode()
        data = b"\n".join(lines) + b"\n\n" + text
        return self._tx.add(COMMIT, data)

    def _load(self, commit: str) -> Commit:
        data = self._source.read_commit(commit)
        if commit not in self._done:
            checked(commit, COMMIT, data)
        return parse_commit(commit, data)


def _known(store: Store, name: str) -> dict[str, str]:
    """Commit of the source -> what this store made of it, from the trailers of what was fetched before."""
    out: dict[str, str] = {}
    waiting = list(store.refs.all(f"{REMOTES}{name}/").values())
    seen = set(waiting)
    while waiting:
        found = store.revisions.load(waiting.pop())
        source = found.trailers.get(SOURCE)
        if source is not None:
            out[source] = found.id
        fresh = [p for p in found.parents if p not in seen]
        seen.update(fresh)
        waiting += fresh
    return out


# --- pushing back ----------------------------------------------------------------------------------------
class _Step(NamedTuple):
    """A change to replay: from one tree of the part to another, and the commit that it becomes."""

    before: str | None
    after: str
    message: str
    author: str
    time: int


def _own(store: Store, mine: str, base: str | None) -> list[_Step]:
    """What this store made since it last fetched, the oldest first: its commits on the line of first parents.

    Where a pull merged the source's branch on the way, all that led to the merge is one step: it was settled there.
    """
    fresh = set(between(store, [base] if base else [], [mine]))
    line: list[Commit] = []
    here: str | None = mine
    while here is not None and here in fresh:
        line.append(store.revisions.load(here))
        here = line[-1].parents[0] if line[-1].parents else None
    steps = [
        _Step(store.revisions.load(c.parents[0]).tree if c.parents else None, c.tree, c.message, c.author, c.time)
        for c in line
        if SOURCE not in c.trailers
    ]
    if base is None or here == base or not is_ancestor(store, base, mine):
        return steps[::-1]
    after = next(i for i, c in enumerate(line) if not (c.parents and is_ancestor(store, base, c.parents[0])))
    made = [c for c in map(store.revisions.load, fresh) if len(c.parents) < 2 and SOURCE not in c.trailers]
    subjects = [c.subject for c in sorted(made, key=lambda c: (c.time, c.id))]
    text = subjects[0] if len(subjects) == 1 else "\n".join([f"{len(subjects)} changes", "", *subjects])
    merge = line[after]
    whole = _Step(store.revisions.load(base).tree, merge.tree, text, merge.author, merge.time)
    return [*steps[:after], whole][::-1]


def _replay(store: Store, whole: Store, branch: str, steps: list[_Step], command: str) -> str:
    """The steps on top of a branch of the whole store, as one operation there."""
    with whole.write(command) as tx:
        old = here = tx.ref(HEADS + branch)
        for step in steps:
            copy_objects(store.objects, [t for t in (step.before, step.after) if t], tx.exists, tx)
            onto = tx.load(here).tree if here else tx.add(TREE, b"")
            tree = _onto(tx, step, onto)
            if here is None or tree != onto:
                data = encode_commit(tree, [here] if here else [], step.message, step.author, step.time)
                here = tx.add(COMMIT, data)
        assert here is not None
        if here != old:
            tx.promote(branch, here, expect=old)
    return here


def _onto(tx: Transaction, step: _Step, onto: str) -> str:
    """A step made to a whole tree: what the part does not hold is the same on both of its sides."""
    paths = [package_path(c.name) for c in layout.changed_packages(tx, step.before, step.after)]
    paths += [f"resources/{c.name}" for c in layout.changed_resources(tx, step.before, step.after)]
    tops = [tx.list_tree(tree) if tree else {} for tree in (step.before, step.after)]
    beside = (tops[0].keys() | tops[1].keys()) - {"packages", "resources"}
    paths += sorted(name for name in beside if tops[0].get(name) != tops[1].get(name))
    base, theirs = (_project(tx, side, onto, paths) for side in (step.before, step.after))
    outcome = merge_revisions(tx, base, onto, theirs)
    if outcome.conflicts:
        first = outcome.conflicts[0]
        where = first.package or first.resource or first.file
        raise UsageError(f"{where} was changed there as well, in another way", hint="rover pull, then push again")
    return outcome.tree


def _project(tx: Transaction, side: str | None, onto: str, paths: list[str]) -> str:
    """The whole tree with one side's versions of some paths, so that a merge sees no other difference."""
    edits: dict[str, TreeItem | None] = {}
    for path in paths:
        item: TreeItem | None = TreeItem(FOLDER, side) if side else None
        for name in path.split("/"):
            item = tx.list_tree(item.id).get(name) if item is not None and item.is_folder else None
        edits[path] = item
    plain: Mapping[str, TreeItem | None] = edits
    return tx.edit_tree(onto, plain)


# --- where the whole is read -----------------------------------------------------------------------------
@contextmanager
def _whole(store: Store, where: Place) -> Iterator[Path]:
    """A repository with all of the source: itself where it is on this machine, else a copy for a while."""
    if where.git is not None:
        yield where.git
        return
    with _whole_store(store, where) as whole:
        yield whole.git


@contextmanager
def _whole_store(store: Store, where: Place) -> Iterator[Store]:
    if where.kind == "rover" and where.git is not None:
        yield Store.open(where.git.parent.parent, clock=store.clock)
        return
    root = scratch(store.folder, "whole-")
    try:
        whole = Store.init(root, clock=store.clock)
        wire.fetch(whole.git, where, [f"+{HEADS}*:{HEADS}*"])
        yield whole
    finally:
        shutil.rmtree(root, ignore_errors=True)
