"""Evidence and audits that travel: only when asked for.

Evidence is keyed by content, so two sets of it have a union and never a conflict. Across a network it lies under
refs/rover/evidence of the remote repository. Sealed audits go from store to store on one machine alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rover_store import wire
from rover_store.commits import AUTHOR, encode_commit, parse_commit
from rover_store.copying import copy_objects
from rover_store.errors import UsageError
from rover_store.incoming import incoming
from rover_store.lock import RepositoryLock
from rover_store.objects import Objects
from rover_store.packs import COMMIT, TREE, PackWriter
from rover_store.publish import publish
from rover_store.refs import EVIDENCE, SEALED, Refs
from rover_store.remotes import Place
from rover_store.trees import FOLDER, Level, TreeItem, encode_tree, parse_tree

if TYPE_CHECKING:
    from rover_store.store import Store


def fetch_evidence(store: Store, where: Place) -> int:
    """Take the evidence of a place. Returns how many objects came."""
    if where.kind == "rover":
        assert where.git is not None
        return absorb(store, where.git.parent / "evidence.git")
    refs, _ = wire.heads(where)
    if EVIDENCE not in refs:
        return 0
    with incoming(store, where, [f"+{EVIDENCE}:{EVIDENCE}"]) as git:
        return absorb(store, git)


def push_evidence(store: Store, where: Place) -> int:
    """Give the evidence to a place; what it has comes here as well, so that both have the union."""
    if where.kind == "rover":
        from rover_store.store import Store as AnyStore

        assert where.git is not None
        return absorb(AnyStore.open(where.git.parent.parent, clock=store.clock), store.folder / "evidence.git")
    fetch_evidence(store, where)
    if store.evidence.refs.get(EVIDENCE) is None:
        return 0
    rows = wire.push(store.evidence.git, where, [f"{EVIDENCE}:{EVIDENCE}"])
    for flag, _, said in rows:
        if flag == "!":
            raise UsageError(f"{where.shown} refused the evidence: {said}", hint="run it again")
    return sum(1 for flag, _, _ in rows if flag != "=")


def absorb(store: Store, git: Path) -> int:
    """Add the evidence of a repository to that of the store."""
    source = Objects(git)
    theirs = Refs(git).get(EVIDENCE)
    evidence = store.evidence
    if theirs is None:
        return 0
    with RepositoryLock(evidence.git, evidence.refs) as lock:
        ours = evidence.refs.get(EVIDENCE)
        if ours is not None and _below(evidence.objects, ours, theirs):
            return 0
        writer = PackWriter(evidence.git / "objects" / "pack")
        try:
            def have(name: str) -> bool:
                return name in writer or evidence.objects.exists(name)

            count = copy_objects(source, [theirs], have, writer.add)

            def level(tree: str) -> Level:
                return parse_tree(writer.get(tree)[1]) if tree in writer else evidence.objects.list_tree(tree)

            def commit_tree(name: str) -> str:
                data = writer.get(name)[1] if name in writer else evidence.objects.read_commit(name)
                return parse_commit(name, data).tree

            new = theirs
            if ours is not None and not _below(source, theirs, ours):
                tree = union(commit_tree(ours), commit_tree(theirs), level, writer.add)
                text = "Evidence of two stores"
                new = writer.add(COMMIT, encode_commit(tree, [ours, theirs], text, AUTHOR, store.clock()))
            publish(lock, evidence.refs, writer, {EVIDENCE: (ours, new)},
                    lambda: evidence.objects.refresh(force=True))  # fmt: skip
        finally:
            writer.abort()
    store.after_write()
    return count


def union(ours: str, theirs: str, level: Callable[[str], Level], write: Callable[[int, bytes], str]) -> str:
    """A tree that has what either has; of two versions of a file, ours."""
    if ours == theirs:
        return ours
    out, other = level(ours), level(theirs)
    for name, item in other.items():
        own = out.get(name)
        if own is None:
            out[name] = item
        elif own.is_folder and item.is_folder and own.id != item.id:
            out[name] = TreeItem(FOLDER, union(own.id, item.id, level, write))
    return write(TREE, encode_tree(out))


def copy_sealed(source: Path, target: Store) -> int:
    """Copy the audits of the store at a .rover folder. Returns how many were new."""
    from rover_store.sealed import FOLDER as SEALED_FOLDER
    from rover_store.sealed import append_bytes

    git = source / SEALED_FOLDER
    if not git.is_dir():
        return 0
    objects = Objects(git)
    head = Refs(git).get(SEALED)
    if head is None:
        return 0
    rows: dict[str, list[bytes]] = {}
    for path, item in objects.read_tree(parse_commit(head, objects.read_commit(head)).tree).items():
        rows.setdefault(path.split("/")[-2], []).append(objects.read(item.id))
    return append_bytes(target, rows)


def _below(objects: Objects, head: str, wanted: str) -> bool:
    """Whether `wanted` is `head` or an ancestor of it."""
    waiting, seen = [head], {head}
    while waiting:
        here = waiting.pop()
        if here == wanted:
            return True
        if not objects.exists(here):
            continue
        for parent in parse_commit(here, objects.read_commit(here)).parents:
            if parent not in seen:
                seen.add(parent)
                waiting.append(parent)
    return False
