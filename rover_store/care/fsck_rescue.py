"""Bringing back objects: good copies of what is damaged or missing, and packs without their damaged records."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rover_store.care.fsck_objects import check_objects
from rover_store.care.fsck_refs import check_refs
from rover_store.care.gc_roots import DAMAGED
from rover_store.care.inventory import Inventory, Repository, open_repositories, read_loose
from rover_store.care.problems import Repaired
from rover_store.errors import StoreError
from rover_store.lock import RepositoryLock
from rover_store.packs import PackWriter, fsync_folder
from rover_store.packs.scan import PackFile, object_digest
from rover_store.refs import Refs

if TYPE_CHECKING:
    from rover_store.store import Store

Tick = Callable[[str, int, int], None]
_ROUNDS = 50


def rescue(
    store: Store, folders: Sequence[Path], sources: Sequence[Path], locks: Mapping[Path, RepositoryLock],
    progress: Tick | None,
) -> Iterator[Repaired]:  # fmt: skip
    """Write good copies of damaged and missing objects; move what is damaged aside. Only under the locks.

    What a rescued tree or commit names may be missing too, so it goes on until nothing more is found.
    """
    for _ in range(_ROUNDS):
        inventory, elsewhere = Inventory(open_repositories(folders)), Inventory(open_repositories(sources))
        try:
            found = list(_round(store, inventory, elsewhere, locks, progress or (lambda _w, _d, _t: None)))
        finally:
            inventory.close()
            elsewhere.close()
        yield from found
        if not found:
            return


def _round(
    store: Store, inventory: Inventory, elsewhere: Inventory, locks: Mapping[Path, RepositoryLock], tick: Tick
) -> Iterator[Repaired]:
    for _ in check_objects(inventory, quick=False, tick=tick):
        pass  # kinds and links are what is wanted; an object without a kind could not be read
    for n, repository in enumerate(inventory.repositories):
        if repository.own:
            missing = _missing(inventory, n, repository)
            hurt = [pack for pack in repository.packs if _is_hurt(inventory, pack)]
            loose = [name for name in repository.loose if not _readable(repository, name)]
            wanted = {name for pack in hurt for name in _damaged(pack, inventory)} | missing
            wanted |= {bytes.fromhex(name) for name in loose}
            yield from _mend(store, inventory, elsewhere, repository, locks[repository.git], hurt, loose, wanted)


def _missing(inventory: Inventory, n: int, repository: Repository) -> set[bytes]:
    """Ids that this repository's refs reach and that it does not see."""
    _, refs = check_refs(repository, inventory)
    bit = 1 << min(n, 7)
    inventory.mark((inventory.of(value) for value in refs.values()), bit)
    sees = inventory.visible(n)
    out = {name for number, links in inventory.missing.items() if inventory.marks[number] & bit for name, _ in links}
    for number in range(inventory.count):
        if inventory.marks[number] & bit and not inventory.places[number] & sees:
            out.add(bytes.fromhex(inventory.name(number)))
    return out | {bytes.fromhex(value) for value in _all_refs(repository).values() if inventory.of(value) < 0}


def _all_refs(repository: Repository) -> dict[str, str]:
    with suppress(StoreError, OSError):
        return {k: v for k, v in Refs(repository.git).all().items() if len(v) == 40}
    return {}


def _is_hurt(inventory: Inventory, pack: PackFile) -> bool:
    return any(pack.path.name in what for what in pack.ground()) or any(_damaged(pack, inventory))


def _damaged(pack: PackFile, inventory: Inventory) -> Iterator[bytes]:
    for item in pack.items(inventory.base):
        name = pack.name_at(item.number)
        digest = item.digest
        if digest is None and item.data is not None and not item.error:
            digest = object_digest(item.kind, item.data)
        if digest != name:
            yield name


def _readable(repository: Repository, object_hex: str) -> bool:
    try:
        return object_digest(*read_loose(repository.git, object_hex)).hex() == object_hex
    except StoreError:
        return False


def _mend(
    store: Store, inventory: Inventory, elsewhere: Inventory, repository: Repository, lock: RepositoryLock,
    hurt: list[PackFile], loose: list[str], wanted: set[bytes],
) -> Iterator[Repaired]:  # fmt: skip
    writer = PackWriter(repository.git / "objects" / "pack")
    rescued = 0
    try:
        for name in sorted(wanted):
            copy = _copy(inventory, name) or _copy(elsewhere, name)
            if copy is not None:
                writer.add(*copy, name.hex())
                rescued += 1
        for pack in hurt:
            for item in pack.items(inventory.base):
                name = pack.name_at(item.number)
                whole = item.data is not None and not item.error and object_digest(item.kind, item.data) == name
                if name.hex() in writer:
                    continue
                if whole and item.data is not None:
                    writer.add(item.kind, item.data, name.hex())
                elif item.digest == name:  # too large to hold
                    for _, start, stop, _ in pack.raw(lambda i, n=item.number: i == n):  # type: ignore[misc]
                        writer.copy_record(name, pack.pieces(start, stop))
        there = {name for name in wanted if name.hex() in writer}
        kept = writer.finish(lambda name: lock.write(f"pack {name}"))
        lock.clear()
    finally:
        writer.abort()
    if rescued:
        yield Repaired(repository.name, f"{rescued} damaged or missing objects: brought back from good copies")
    aside = store.folder / DAMAGED
    for pack in hurt:
        if pack.name == kept:
            yield Repaired(repository.name, f"{pack.path.name}: written again, all that it held is whole")
        elif (kept or rescued or not pack.count):
            lost = sum(1 for name in _damaged(pack, inventory) if name not in there)
            _aside(aside, [pack.index, pack.path])
            what = f"{pack.path.name}: moved to .rover/{DAMAGED}; " + (f"{lost} objects of it are lost" if lost else
                   "all that it held is whole")  # fmt: skip
            yield Repaired(repository.name, what)
    for object_hex in loose:
        if bytes.fromhex(object_hex) in there:
            path = repository.git / "objects" / object_hex[:2] / object_hex[2:]
            _aside(aside, [path], object_hex)
            yield Repaired(repository.name, f"loose object {object_hex}: moved to .rover/{DAMAGED}")


def _copy(inventory: Inventory, name: bytes) -> tuple[int, bytes] | None:
    for kind, data in inventory.copies(name):
        if object_digest(kind, data) == name:
            return kind, data
    return None


def _aside(folder: Path, paths: list[Path], name: str = "") -> None:
    folder.mkdir(exist_ok=True)
    for path in paths:
        with suppress(FileNotFoundError):
            os.rename(path, folder / (name or path.name))
    fsync_folder(folder)
