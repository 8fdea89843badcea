"""Evidence and audits that travel: only when asked for.

Evidence is keyed by content, so two sets of it have a union and never a conflict. Across a network it lies under
refs/rover/evidence of the remote repository. Sealed audits go from store to store on one machine alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from rover_store.commits import AUTHOR, encode_commit, parse_commit
from rover_store.errors import UsageError
from rover_store.layout import fanned
from rover_store.lock import RepositoryLock
from rover_store.objects import Objects
from rover_store.packs import COMMIT, TREE, PackWriter
from rover_store.publish import publish
from rover_store.refs import EVIDENCE, SEALED, Refs
from rover_store.transfer import wire
from rover_store.transfer.copying import copy_objects
from rover_store.transfer.incoming import incoming
from rover_store.transfer.remotes import Place
from rover_store.trees import FOLDER, Level, TreeItem, edit_tree, encode_tree, parse_tree

if TYPE_CHECKING:
    from rover_store.evidence import Evidence
    from rover_store.store import Store


#: told the place, below the tree of the evidence, where ours stands and theirs differs
Told = Callable[[str], None]


def _unheard(path: str) -> None:
    pass


def fetch_evidence(store: Store, where: Place, globs: tuple[str, ...] = (), told: Told = _unheard) -> int:
    """Take the evidence of a place, or of the packages that match there. Returns how many objects came."""
    if where.kind == "rover":
        assert where.git is not None
        return absorb(store, where.git.parent / "evidence.git", globs, told)
    refs, _ = wire.heads(where)
    if EVIDENCE not in refs:
        return 0
    with incoming(store, where, [f"+{EVIDENCE}:{EVIDENCE}"], ("store.git", "evidence.git")) as git:
        return absorb(store, git, globs, told)


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


def absorb(store: Store, git: Path, globs: tuple[str, ...] = (), told: Told = _unheard) -> int:
    """Add the evidence of a repository to that of the store; with globs, that of the packages that match.

    PackageError, and nothing is changed, where any of it is not what it says."""
    from rover_store.transfer.foreign import Foreign, Inspector

    source = Objects(git)
    theirs = Refs(git).get(EVIDENCE)
    if theirs is None:
        return 0
    Inspector(store.evidence, Foreign("evidence", source, theirs), globs=globs, deep=False).offers()
    return _absorb_part(store, source, theirs, globs, told) if globs else _absorb(store, source, theirs, told)


def _absorb(store: Store, source: Objects, theirs: str, told: Told) -> int:
    evidence = store.evidence
    with RepositoryLock(evidence.git, evidence.refs) as lock:
        ours = evidence.refs.get(EVIDENCE)
        if ours is not None and _below(evidence.objects, ours, theirs):
            return 0
        writer = PackWriter(evidence.git / "objects" / "pack")
        try:
            def have(name: str) -> bool:
                return name in writer or evidence.objects.exists(name)

            count = copy_objects(source, [theirs], have, writer)

            new = theirs
            if ours is not None and not _below(source, theirs, ours):
                own, other = _tree(evidence.objects, ours), _tree(source, theirs)
                level, read = levels(writer, evidence.objects), _reading(writer, evidence)
                tree = union(own, other, level, writer.add, read, told)
                text = "Evidence of two stores"
                new = writer.add(COMMIT, encode_commit(tree, [ours, theirs], text, AUTHOR, store.clock()))
            publish(lock, evidence.refs, writer, {EVIDENCE: (ours, new)},
                    lambda: evidence.objects.refresh(force=True))  # fmt: skip
        finally:
            writer.abort()
    store.after_write()
    return count


def _absorb_part(store: Store, source: Objects, theirs: str, globs: tuple[str, ...], told: Told) -> int:
    """The rollouts of some packages, as a commit of this store's own."""
    evidence = store.evidence
    wanted = {
        path: TreeItem(FOLDER, tree)
        for path, _, tree in fanned(source, _tree(source, theirs), "rollouts")
        if any(fnmatchcase(package_of(source, tree), pattern) for pattern in globs)
    }
    if not wanted:
        return 0
    with RepositoryLock(evidence.git, evidence.refs) as lock:
        ours = evidence.refs.get(EVIDENCE)
        writer = PackWriter(evidence.git / "objects" / "pack")
        try:
            def have(name: str) -> bool:
                return name in writer or evidence.objects.exists(name)

            count = copy_objects(source, [item.id for item in wanted.values()], have, writer)
            level = levels(writer, evidence.objects)
            tree = edit_tree(None, wanted, level, writer.add)
            old = _tree(evidence.objects, ours) if ours else None
            tree = union(old, tree, level, writer.add, _reading(writer, evidence), told) if old else tree
            if tree == old:
                return 0
            text = "Evidence of another store"
            new = writer.add(COMMIT, encode_commit(tree, [ours] if ours else [], text, AUTHOR, store.clock()))
            publish(lock, evidence.refs, writer, {EVIDENCE: (ours, new)},
                    lambda: evidence.objects.refresh(force=True))  # fmt: skip
        finally:
            writer.abort()
    store.after_write()
    return count


def package_of(source: Objects, rollout: str) -> str:
    """Name of the package that a rollout ran on."""
    item = source.list_tree(rollout).get("trajectory.json")
    try:
        return str(json.loads(source.read(item.id))["package"]) if item is not None else ""
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def levels(writer: PackWriter, objects: Objects) -> Callable[[str], Level]:
    """Reads the entries of trees, those that were written a moment ago among them."""
    return lambda tree: parse_tree(writer.get(tree)[1]) if tree in writer else objects.list_tree(tree)


def _reading(writer: PackWriter, evidence: Evidence) -> Callable[[str], bytes]:
    return lambda blob: writer.get(blob)[1] if blob in writer else evidence.objects.read(blob)


def union(
    ours: str, theirs: str, level: Callable[[str], Level], write: Callable[[int, bytes], str],
    read: Callable[[str], bytes], told: Callable[[str], None] = lambda path: None, path: str = "",
) -> str:  # fmt: skip
    """A tree that has what either has; of two versions of a file, ours. `told` each place where theirs gave way.

    Of a rollout that both have ours stands, pruned or not, with the verdicts on it that theirs has besides; where the
    two ended otherwise, theirs would be verdicts of something else, and stay away.
    """
    if ours == theirs:
        return ours
    out, other = level(ours), level(theirs)
    if "trajectory.json" in out:
        same = alike(out, other, read)
        if not same:
            told(f"{path}trajectory.json")
        other = {name: item for name, item in other.items() if name == "verdicts" and same}
    for name, item in other.items():
        own = out.get(name)
        if own is None:
            out[name] = item
        elif own.is_folder and item.is_folder and own.id != item.id:
            out[name] = TreeItem(FOLDER, union(own.id, item.id, level, write, read, told, f"{path}{name}/"))
        elif own.id != item.id:
            told(f"{path}{name}")
    return write(TREE, encode_tree(out))


def alike(ours: Level, theirs: Level, read: Callable[[str], bytes]) -> bool:
    """Whether two folders of one rollout hold one run: the same record, or one of them pruned that ended alike."""
    one, other = ours.get("trajectory.json"), theirs.get("trajectory.json")
    if one is None or other is None or one.id == other.id:
        return one == other
    return ("start" in ours) != ("start" in theirs) and _end(read(one.id)) == _end(read(other.id))


def _end(record: bytes) -> str:
    """Workspace tree at the end of a rollout, as its record has it."""
    try:
        found = json.loads(record)
        turns = found.get("turns")
        return str(found.get("pruned") or (turns[-1]["tree"] if turns else found["start"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, IndexError):
        return ""


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
    for path, item in objects.read_tree(_tree(objects, head)).items():
        rows.setdefault(path.split("/")[-2], []).append(objects.read(item.id))
    return append_bytes(target, rows)


def _tree(objects: Objects, commit: str) -> str:
    return parse_commit(commit, objects.read_commit(commit)).tree


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
