"""Mending what is derived, and bringing back damaged objects from where another copy is. Truth is never touched:

no ref moves, no record changes, and a damaged pack or object is moved to .rover/damaged, not deleted. What is mended:
unfinished files and locks of writers that were killed, indexes of packs, maps that another git derived, the file that
lets the evidence borrow the packages' objects, the index of the store.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rover_store.care.fsck import fsck
from rover_store.care.fsck_objects import STALE_S, derived_files, is_sound_derived
from rover_store.care.fsck_refs import STALE_LOCK_S
from rover_store.care.fsck_rescue import rescue
from rover_store.care.inventory import Inventory, open_repositories, store_repositories
from rover_store.care.problems import Problem, Repaired
from rover_store.errors import StoreError, UsageError
from rover_store.lock import RepositoryLock
from rover_store.packs.index import rebuild_index
from rover_store.plain_file import read_plain
from rover_store.refs import Refs

if TYPE_CHECKING:
    from rover_store.store import Store

Tick = Callable[[str, int, int], None]
#: problems that a copy of an object may cure
_OBJECTS = frozenset({
    "badObject", "hashMismatch", "badPack", "badPackIndex", "packWithoutIndex", "missingPack", "missingBlob",
    "missingTree", "missingCommit", "missingTag", "badRefTarget", "unreadable",
})  # fmt: skip


class RepairReport(NamedTuple):
    """What was mended, and the problems that are left."""

    repaired: tuple[Repaired, ...]
    left: tuple[Problem, ...]


def repair(store: Store, *, sources: Sequence[Path] = (), progress: Tick | None = None) -> RepairReport:
    """Mend what can be mended; open the store again afterwards.

    `sources`: clones, repositories or project folders to take good copies from.
    UsageError for a source that holds no repository; nothing is touched then.
    """
    others = [git for source in sources for git in source_repositories(source)]
    done: list[Repaired] = []
    folders = store_repositories(store.folder)
    found = {problem.kind for problem in fsck(store, progress=progress)}
    if not found:
        return RepairReport((), ())
    stale = [(git, path) for git in folders for path in _stale(git)]
    with ExitStack() as stack:
        locks = {}
        for git in folders:  # entering also removes what killed writers of ours left
            locks[git] = store.lock if git == store.git else RepositoryLock(git, Refs(git))
            stack.enter_context(locks[git])
        for git, path in stale:
            path.unlink(missing_ok=True)
            done.append(Repaired(git.name, f"{path.relative_to(git)}: removed, left by a writer that was killed"))
        for git in folders:
            done += _maps(git)
        done += _alternates(store)
        done += _indexes(folders)
        if found & _OBJECTS:
            done += rescue(store, folders, others, locks, progress)
    # an open store may hold maps of files that were replaced
    fresh = type(store)(store.root, store.config, store.clock)
    left = fsck(fresh, progress=progress)
    if any(problem.where == "index" for problem in left):
        fresh.reindex()
        done.append(Repaired("index", "built again from git"))
        left = fsck(fresh, progress=progress)
    return RepairReport(tuple(done), tuple(left))


def source_repositories(folder: Path) -> list[Path]:
    """Git repositories of a source: a bare one, a clone, or a project folder with a store."""
    found = [
        git
        for git in (folder / ".rover" / "store.git", folder / ".rover" / "evidence.git", folder / "store.git",
                    folder / ".git", folder)
        if (git / "objects").is_dir()
    ]  # fmt: skip
    if not found:
        raise UsageError(f"{folder}: holds no git repository to take objects from")
    return found


def _stale(git: Path) -> Iterator[Path]:
    """Files of writers that are gone. Under the flock no writer of ours is at work; another git's may be."""
    def old(path: Path, seconds: float) -> bool:
        with suppress(OSError):
            return time.time() - path.stat().st_mtime > seconds
        return False

    objects = git / "objects"
    found = [p for p in (objects / "pack").glob("*") if p.name.startswith((".tmp-", "tmp_")) and p.is_file()]
    found += objects.glob("[0-9a-f][0-9a-f]/tmp_obj_*")
    locks = [git / name for name in ("HEAD.lock", "packed-refs.lock", "config.lock", "shallow.lock")]
    for folder, _, files in os.walk(git / "refs"):
        locks += [Path(folder, file) for file in files if file.endswith(".lock")]
    yield from (path for path in sorted(found) if old(path, STALE_S))
    yield from (path for path in sorted(locks) if old(path, STALE_LOCK_S))


def _maps(git: Path) -> Iterator[Repaired]:
    for path in derived_files(git):
        if not is_sound_derived(path):
            with suppress(OSError):
                path.unlink()
                yield Repaired(git.name, f"{path.relative_to(git)}: removed; git derives it again when it is wanted")


def _alternates(store: Store) -> Iterator[Repaired]:
    git = store.folder / "evidence.git"
    file = git / "objects" / "info" / "alternates"
    if not (git / "objects").is_dir():
        return
    try:
        lines = read_plain(file).decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        lines = []
    kept = [line for line in lines if line and (line[0] == "#" or (git / "objects" / line).is_dir())]
    if not any((git / "objects" / line).resolve() == (store.git / "objects").resolve() for line in kept):
        kept.append("../../store.git/objects")
    if kept != lines:
        file.parent.mkdir(exist_ok=True)
        scratch = file.with_name("alternates.tmp")
        scratch.write_text("".join(f"{line}\n" for line in kept), "utf-8", "surrogateescape")
        os.rename(scratch, file)
        yield Repaired(git.name, "objects/info/alternates: names store.git again")


def _indexes(folders: Sequence[Path]) -> Iterator[Repaired]:
    """Indexes that are missing or not usable, made from their packs where those are whole."""
    inventory = Inventory(open_repositories(folders))
    try:
        todo = []
        for repository in inventory.repositories:
            if not repository.own:
                continue
            usable = {pack.path: pack for pack in repository.packs}
            for path in sorted((repository.git / "objects" / "pack").glob("pack-*.pack")):
                if path not in usable or any(path.with_suffix(".idx").name in what for what in usable[path].ground()):
                    todo.append((repository.name, path))
        for name, path in todo:
            with suppress(StoreError, OSError):
                count = rebuild_index(path, inventory.base)
                yield Repaired(name, f"{path.stem}.idx: built again from the pack, {count} objects")
    finally:
        inventory.close()
