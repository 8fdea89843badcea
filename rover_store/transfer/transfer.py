"""Sharing a store: clone, fetch, push and pull, over folders and any git URL.

What travels by default are branches and tags, and the manifests of releases with their tags. Repair cases, open
merges and the operation log stay: the log of a clone begins with the clone. Evidence and sealed audits travel only
when asked for (`evidence`). A branch is never overwritten: who is behind pulls first.
Between folders rover reads and writes itself; across a network, and into a foreign repository, git does (`wire`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rover_store import config
from rover_store.errors import NotFound, StoreError, UsageError
from rover_store.objects import Objects
from rover_store.refs import HEADS, RELEASES, REMOTES, TAGS, Refs, check_ref
from rover_store.scratch import scratch
from rover_store.store import Clock, Store, wall_clock
from rover_store.transfer import remotes, wire
from rover_store.transfer.copying import copy_objects
from rover_store.transfer.incoming import adopt, incoming
from rover_store.transfer.remotes import Place, Remote, place

if TYPE_CHECKING:
    from rover_store.merging.merge import MergeResult
    from rover_store.write import Transaction

#: what git says of a push that came second: it saw so before, or the server's ref moved under it
_FIRST = ("non-fast-forward", "fetch first", "stale info", "failed to update ref", "cannot lock ref", "incorrect old")
#: ref -> where it was and where it goes; None: it is not there
Moves = dict[str, tuple[str | None, str | None]]


class Update(NamedTuple):
    """A ref that moved. `ref` as people write it: main, origin/main, tag v1."""

    ref: str
    old: str | None
    new: str | None


class Transferred(NamedTuple):
    """What a fetch or push did. `kept`: tags that both sides have, and that differ; neither was touched. `differ`:
    places of evidence that both have, and that differ; ours stands."""

    remote: str
    url: str
    updates: tuple[Update, ...] = ()
    kept: tuple[str, ...] = ()
    evidence: int = 0
    sealed: int = 0
    pushed: tuple[str, ...] = ()
    differ: tuple[str, ...] = ()


class Pulled(NamedTuple):
    """What a pull did."""
    fetched: Transferred
    merged: MergeResult


class Cloned(NamedTuple):
    """What a clone made."""
    root: Path
    branch: str
    commit: str | None
    packages: int
    fetched: Transferred


def fetch(
    store: Store, name: str = "", *, evidence: bool = False, sealed: bool = False, command: str = ""
) -> Transferred:
    """Take the branches (as REMOTE/BRANCH) and new tags of a remote. No branch of this store moves."""
    remote = remotes.chosen(store, name)
    where = place(remote.url)
    if remote.packages:
        from rover_store.transfer.partial import fetch_part

        done = fetch_part(store, remote, where, command=command or f"fetch {remote.name}")
    else:
        done = _fetch_all(store, remote, where, command or f"fetch {remote.name}")
    return _with_extras(done, store, remote, where, evidence, sealed)


def pull(
    store: Store, name: str = "", branch: str = "", *, evidence: bool = False, sealed: bool = False,
    time: int | None = None, command: str = "",
) -> Pulled:  # fmt: skip
    """Fetch a remote and merge its branch (of the same name as the current one) into the current one."""
    from rover_store.merging.merge import merge

    into = store.current_branch()
    if into is None:
        raise UsageError("HEAD is detached; name the branch to pull into", hint="rover branch NAME --switch")
    fetched = fetch(store, name, evidence=evidence, sealed=sealed, command=command)
    wanted = branch or into
    ref = f"{REMOTES}{fetched.remote}/{wanted}"
    if store.refs.get(ref) is None:
        raise UsageError(f"{fetched.remote} has no branch {wanted}", hint="name one: rover pull REMOTE BRANCH")
    return Pulled(fetched, merge(store, f"{fetched.remote}/{wanted}", time=time, command=command))


def push(
    store: Store, name: str = "", branch: str = "", *, tags: bool = False, evidence: bool = False,
    sealed: bool = False, command: str = "",
) -> Transferred:  # fmt: skip
    """Give a branch (the current one) to a remote. UsageError where the remote has commits that this store lacks."""
    remote = remotes.chosen(store, name)
    where = place(remote.url)
    chosen = branch or store.current_branch()
    if chosen is None:
        raise UsageError("HEAD is detached; name the branch to push", hint="rover push REMOTE BRANCH")
    new = store.refs.get(check_ref(HEADS + chosen))
    if new is None:
        raise NotFound("branch", chosen)
    if sealed and where.kind != "rover":
        raise UsageError("sealed audits go only to a rover store on this machine")
    if remote.packages:
        from rover_store.transfer.partial import push_part

        done = push_part(store, remote, where, chosen, command=command or f"push {remote.name} {chosen}")
    else:
        done = _push_all(store, remote, where, chosen, new, tags, command or f"push {remote.name} {chosen}")
    if evidence:
        from rover_store.transfer.evidence import push_evidence

        done = done._replace(evidence=push_evidence(store, where))
    if sealed:
        from rover_store.transfer.evidence import copy_sealed

        assert where.git is not None
        other = Store.open(where.git.parent.parent, clock=store.clock)
        done = done._replace(sealed=copy_sealed(store.folder, other))
    return done


def clone(
    url: str, folder: Path, *, packages: tuple[str, ...] = (), branch: str = "", evidence: bool = False,
    sealed: bool = False, clock: Clock = wall_clock, command: str = "",
) -> Cloned:  # fmt: skip
    """Make a store in a folder from another one. It appears whole or not at all."""
    where = place(url)
    target = folder / config.FOLDER
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} exists already", hint="choose another folder, or `rover pull` in that one")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: not a folder")
    if sealed and where.kind != "rover":
        raise UsageError("sealed audits come only from a rover store on this machine")
    made = not folder.exists()
    made_in = scratch(folder, f"{config.FOLDER}.clone-")
    try:
        store = Store.init(made_in, clock=clock)
        text = command or f"clone {where.shown}"
        remotes.add(store, "origin", url, packages)
        _, head = refs_of(where)
        wanted = branch or (head or "").removeprefix(HEADS) or "main"
        done = fetch(store, "origin", evidence=evidence, sealed=sealed, command=text)
        tip = store.refs.get(f"{REMOTES}origin/{wanted}")
        if tip is None and packages and not done.updates:
            raise UsageError(f"no package of {where.shown} matches {' or '.join(map(repr, packages))}")
        if tip is None and (branch or done.updates):
            raise UsageError(f"{where.shown} has no branch {wanted}", hint="name one with --branch")
        with store.write(text) as tx:
            tx.move_head(HEADS + wanted)
            if tip is not None:
                tx.move_ref(HEADS + wanted, None, tip)
        os.rename(made_in / config.FOLDER, target)
    except BaseException:
        shutil.rmtree(folder if made else made_in, ignore_errors=True)
        raise
    shutil.rmtree(made_in, ignore_errors=True)
    opened = Store.open(folder, clock=clock)
    count = len(opened.packages()) if tip else 0
    return Cloned(folder, wanted, tip, count, done)


def refs_of(where: Place) -> tuple[dict[str, str], str | None]:
    """Branches, tags and releases of a place, and what its HEAD names."""
    if where.git is None:
        refs, head = wire.heads(where)
    else:
        there = Refs(where.git)
        refs = {**there.all(HEADS), **there.all(TAGS), **there.all(RELEASES)}
        head = there.head()
    wanted = {ref: value for ref, value in refs.items() if ref.startswith((HEADS, TAGS, RELEASES))}
    for ref in wanted:
        check_ref(ref)
    return wanted, head if head and head.startswith(HEADS) else None


# --- within ----------------------------------------------------------------------------------------------
def _with_extras(
    done: Transferred, store: Store, remote: Remote, where: Place, evidence: bool, sealed: bool
) -> Transferred:
    """Evidence and audits, where they were asked for."""
    if evidence:
        from rover_store.transfer.evidence import fetch_evidence

        differ: list[str] = []
        took = fetch_evidence(store, where, remote.packages, differ.append)
        done = done._replace(evidence=took, differ=tuple(differ))
    if sealed:
        from rover_store.transfer.evidence import copy_sealed

        if where.kind != "rover" or where.git is None:
            raise UsageError("sealed audits come only from a rover store on this machine")
        done = done._replace(sealed=copy_sealed(where.git.parent, store))
    return done


def _fetch_all(store: Store, remote: Remote, where: Place, command: str) -> Transferred:
    refs, _ = refs_of(where)
    moves, kept = plan(store, remote.name, refs)
    tips = sorted({new for _, new in moves.values() if new is not None})
    if where.git is not None:
        if (where.git / "shallow").exists():
            hint = "git fetch --unshallow there"
            raise UsageError(f"{where.shown} is a shallow clone: its history is cut", hint=hint)
        source = Objects(where.git)
        with store.write(command) as tx:
            copy_objects(source, tips, tx.exists, tx)
            _move(tx, moves)
    elif not tips:
        with store.write(command) as tx:
            _move(tx, moves)
    else:
        wanted = {ref for ref, value in refs.items() if value in tips}
        specs = [f"+{ref}:{ref}" for ref in sorted(wanted)]
        with incoming(store, where, specs, ("store.git",)) as git, store.write(command) as tx:
            adopt(git, store.git, store.lock)
            store.objects.refresh(force=True)
            _move(tx, moves)
    return Transferred(remote.name, where.shown, _shown(moves), kept)


def plan(
    store: Store, name: str, refs: Mapping[str, str]
) -> tuple[Moves, tuple[str, ...]]:
    """Refs of this store that a fetch moves, and tags that differ and stay. A branch that is gone there goes here."""
    there = {f"{REMOTES}{name}/{ref.removeprefix(HEADS)}" for ref in refs if ref.startswith(HEADS)}
    known = store.refs.all(f"{REMOTES}{name}/")
    moves: Moves = {ref: (old, None) for ref, old in known.items() if ref not in there}
    kept = []
    for ref, value in sorted(refs.items()):
        own = f"{REMOTES}{name}/{ref.removeprefix(HEADS)}" if ref.startswith(HEADS) else ref
        old = store.refs.get(own)
        if old == value:
            continue
        if own == ref and old is not None:
            kept.append(ref.removeprefix(TAGS))
        else:
            moves[own] = (old, value)
    return moves, tuple(k for k in kept if not k.startswith(RELEASES))


def _move(tx: Transaction, moves: Moves) -> None:
    for ref, (old, new) in moves.items():
        tx.move_ref(ref, old, new)


def _shown(moves: Moves) -> tuple[Update, ...]:
    rows = [(_named(ref), old, new) for ref, (old, new) in moves.items() if not ref.startswith(RELEASES)]
    return tuple(Update(*row) for row in rows)


def _named(ref: str) -> str:
    return f"tag {ref.removeprefix(TAGS)}" if ref.startswith(TAGS) else ref.removeprefix(REMOTES).removeprefix(HEADS)


def _push_all(
    store: Store, remote: Remote, where: Place, branch: str, new: str, tags: bool, command: str
) -> Transferred:
    more = {**store.refs.all(TAGS), **store.refs.all(RELEASES)} if tags else {}
    if where.kind == "rover":
        moves, kept = _push_store(store, where, branch, new, more, command)
    else:
        moves, kept = _push_git(store, where, branch, new, more)
    track(store, remote.name, branch, new, command)
    return Transferred(remote.name, where.shown, _shown(moves), kept, pushed=tuple(sorted(moves)))


def track(store: Store, name: str, branch: str, new: str, command: str) -> None:
    """Remember where the remote's branch is."""
    ref = f"{REMOTES}{name}/{branch}"
    with store.write(command) as tx:
        old = tx.ref(ref)
        if old != new:
            tx.move_ref(ref, old, new)


def _push_store(
    store: Store, where: Place, branch: str, new: str, more: Mapping[str, str], command: str
) -> tuple[Moves, tuple[str, ...]]:
    """Into a rover store: under its lock, as one operation of its own."""
    assert where.git is not None
    other = Store.open(where.git.parent.parent, clock=store.clock)
    if other.folder.resolve() == store.folder.resolve():
        raise UsageError("a store cannot be pushed to itself")
    moves: Moves = {}
    kept = []
    with other.write(command) as tx:
        old = tx.ref(HEADS + branch)
        if old != new:
            forward(store, old, new, branch, where)
            moves[HEADS + branch] = (old, new)
        for ref, value in more.items():
            there = tx.ref(ref)
            if there is None:
                moves[ref] = (None, value)
            elif there != value:
                kept.append(ref.removeprefix(TAGS))
        copy_objects(store.objects, sorted({v for _, v in moves.values() if v}), tx.exists, tx)
        _move(tx, moves)
    return moves, tuple(k for k in kept if not k.startswith(RELEASES))


def forward(store: Store, old: str | None, new: str, branch: str, where: Place) -> None:
    """UsageError unless a branch of a place only moves forward."""
    from rover_store.history.ancestry import is_ancestor

    if old is None or (store.objects.exists(old) and is_ancestor(store, old, new)):
        return
    raise behind(branch, where)


def behind(branch: str, where: Place) -> UsageError:
    """The error of a push that came second."""
    return UsageError(
        f"{branch} at {where.shown} has commits that this store does not have", hint="rover pull, then push again"
    )


def accepted(rows: list[tuple[str, str, str]], branch: str, where: Place) -> None:
    """UsageError where git says that another one was first, StoreError where the server refused for its own reasons."""
    for flag, spec, said in rows:
        if flag == "!" and any(word in said for word in _FIRST):
            raise behind(branch, where)
        if flag == "!":
            raise StoreError(f"{where.shown} refused {spec.rpartition(':')[2]}: {said}")


def _push_git(
    store: Store, where: Place, branch: str, new: str, more: Mapping[str, str]
) -> tuple[Moves, tuple[str, ...]]:
    """Into any repository, by git: its hooks and settings hold."""
    there, _ = refs_of(where) if where.git is not None else wire.heads(where)
    old = there.get(HEADS + branch)
    moves: Moves = {} if old == new else {HEADS + branch: (old, new)}
    if old != new:
        forward(store, old, new, branch, where)
    kept = [ref for ref, value in more.items() if ref in there and there[ref] != value]
    moves.update({ref: (None, value) for ref, value in more.items() if ref not in there})
    if moves:
        rows = wire.push(store.git, where, [f"{value}:{ref}" for ref, (_, value) in moves.items()])
        accepted(rows, branch, where)
    return moves, tuple(k.removeprefix(TAGS) for k in kept if k.startswith(TAGS))
