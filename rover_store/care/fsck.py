"""Checking a store: all that git finds, and what only a store of packages can get wrong.

Every packed and loose object is inflated and hashed again, every ref and every id that a reachable object names must
exist, every record must parse, every edge, pin, piece of evidence and case must name what is there, and the index
must say what git does. Problems are returned, never raised; `repair` mends what is derived.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from rover_store.care.fsck_evidence import check_cases, check_evidence, check_operations
from rover_store.care.fsck_index import check_index
from rover_store.care.fsck_objects import check_dangling, check_links, check_objects, check_reach
from rover_store.care.fsck_refs import check_refs
from rover_store.care.fsck_ties import check_packages
from rover_store.care.inventory import Inventory, open_repositories, store_repositories
from rover_store.care.problems import Problem
from rover_store.errors import RoverError
from rover_store.lock import RepositoryLock
from rover_store.refs import Refs

if TYPE_CHECKING:
    from rover_store.store import Store

__all__ = ["Problem", "fsck"]

Tick = Callable[[str, int, int], None]
_EXPECTED = ("store.git", "evidence.git")
#: beside busy writers a check that finds something is made again so often
_TRIES = 3
#: problems that do not make it pointless to look further: what they are about can still be read
_HARMLESS = frozenset({
    "packWithoutIndex", "staleTemporaryFile", "staleLock", "badDerivedFile", "badMultiPackIndex", "badLooseName",
    "dangling", "detachedHead", "unbornHead", "danglingSymref", "trailingRefContent", "badPackedRefs", "badRefName",
})  # fmt: skip


def fsck(
    store: Store, *, quick: bool = False, dangling: bool = False, progress: Tick | None = None
) -> list[Problem]:
    """All problems, in a stable order.

    `quick` inflates no blob, hashes no pack and parses no record: connectivity alone. `dangling` tells unreachable
    objects too, as infos. Writers go on meanwhile; what looks wrong because of one of them is looked at again, in the
    end with all of them waiting.
    """
    tick = progress or (lambda _what, _done, _total: None)
    folders = store_repositories(store.folder)
    for _ in range(_TRIES):
        before = [_state(git) for git in folders]
        problems = _check(store, folders, quick, dangling, tick)
        if not any(p.severity == "error" for p in problems) or before == [_state(git) for git in folders]:
            return problems
    with ExitStack() as stack:
        for git in folders:
            stack.enter_context(store.lock if git == store.git else RepositoryLock(git, Refs(git)))
        return _check(store, folders, quick, dangling, tick)


def _state(git: Path) -> object:
    """What a writer changes: refs and packs."""
    refs = Refs(git)
    try:
        return refs.head_text(), refs.all(damaged=True), sorted(os.listdir(git / "objects" / "pack"))
    except OSError as error:
        return error.errno


def _check(store: Store, folders: list[Path], quick: bool, dangling: bool, tick: Tick) -> list[Problem]:
    there = {git.name for git in folders}
    missing = [n for n in _EXPECTED if n not in there]
    problems = [Problem(n, "missing or not a git repository", kind="missingRepository") for n in missing]
    try:
        inventory = Inventory(open_repositories(folders))
    except OSError as error:
        return [*problems, Problem(str(error.filename), error.strerror or "cannot be read", kind="unreadable")]
    try:
        problems += _ground(inventory, quick, dangling, tick)
        broken = [p for p in problems if p.severity == "error" and p.kind not in _HARMLESS]
        if not missing:
            problems += _above(store, inventory, quick, bool(broken), tick)
    finally:
        inventory.close()
    return problems


def _ground(inventory: Inventory, quick: bool, dangling: bool, tick: Tick) -> Iterator[Problem]:
    """Objects and refs of every repository."""
    yield from check_objects(inventory, quick=quick, tick=tick)
    yield from check_links(inventory)
    used = 0
    for n, repository in enumerate(inventory.repositories):
        if repository.own:
            found, refs = check_refs(repository, inventory)
            yield from found
            bit = 1 << min(n, 7)
            used |= bit
            yield from check_reach(inventory, n, [inventory.of(value) for value in refs.values()], bit)
    if dangling:
        yield from check_dangling(inventory, used)


def _above(store: Store, inventory: Inventory, quick: bool, broken: bool, tick: Tick) -> Iterator[Problem]:
    """What the objects mean. On broken ground only what is readable is judged, and the index is left alone."""
    parts: list[tuple[str, Callable[[], Iterator[Problem]]]] = [
        ("packages", lambda: check_packages(store, inventory, quick=quick, broken=broken)),
        ("cases", lambda: check_cases(store, inventory)),
        ("operations", lambda: check_operations(store, inventory)),
        ("evidence", lambda: check_evidence(store, inventory, quick=quick)),
    ]
    if not broken:
        parts.append(("index", lambda: check_index(store)))
    for n, (what, part) in enumerate(parts):
        tick(what, n, len(parts))
        try:
            yield from part()
        except (RoverError, OSError, ValueError) as error:
            if not broken:
                message = getattr(error, "message", "") or str(error)
                yield Problem(what, f"cannot be read to its end: {message}", kind="unreadable")
