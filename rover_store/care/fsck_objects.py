"""Checking objects: every pack, index and loose file, every object's bytes, what each one names.

One pass over each pack in the order of the file, a few megabytes in memory. What an object names is kept in the
inventory, so that afterwards reachability needs no second reading.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rover_store.care import fsck_bytes
from rover_store.care.inventory import Inventory, Repository, entries_of, links_of, links_of_entries, read_loose
from rover_store.care.problems import Problem
from rover_store.errors import StoreError
from rover_store.packs import BLOB, COMMIT, KIND_NAME, TREE
from rover_store.packs.scan import PackFile, checksum, object_digest
from rover_store.plain_file import open_plain

#: unfinished files of a writer that may still be alive are left alone for so long
STALE_S = 3600
_PACK_NAME = re.compile(r"pack-[0-9a-f]{40}\.(pack|idx|keep|rev|bitmap|mtimes|promisor)")
_REPAIR = "rover fsck --repair"
_COPY = "rover fsck --repair, with --from CLONE where another copy is"
Tick = Callable[[str, int, int], None]


def check_objects(inventory: Inventory, *, quick: bool, tick: Tick) -> Iterator[Problem]:
    """Problems of all files and objects; fills the inventory. `quick` does not inflate blobs."""
    done = 0
    for repository in inventory.repositories:
        yield from _files(repository)
        for pack in repository.packs:
            where = f"{repository.name}/{pack.name}"
            if not quick:
                yield from (Problem(where, what, kind="badPack", remedy=_COPY) for what in pack.ground())
            yield from _pack(inventory, where, pack, quick)
            done += pack.count
            tick("objects", done, inventory.count)
        for object_hex in repository.loose:
            yield from _loose(inventory, repository, object_hex)


def _pack(inventory: Inventory, where: str, pack: PackFile, quick: bool) -> Iterator[Problem]:
    for item in pack.items(inventory.base, blobs=not quick):
        name = pack.name_at(item.number)
        if item.error:
            yield _damaged(where, name.hex(), item.error)
            continue
        number = inventory.number(name)
        if item.data is None:
            inventory.kinds[number] = item.kind
            if item.digest is not None and item.digest != name:
                yield _misnamed(where, name.hex())
            continue
        yield from judge(inventory, where, number, item.kind, item.data)


def judge(inventory: Inventory, where: str, number: int, kind: int, data: bytes) -> Iterator[Problem]:
    """Problems of one object's bytes; keeps what it is and names."""
    name = inventory.ids[20 * number : 20 * number + 20]
    if object_digest(kind, data) != name:
        yield _misnamed(where, name.hex())
        return
    if kind == BLOB:
        inventory.kinds[number] = kind
        return
    entries = entries_of(data) if kind == TREE else None
    found = fsck_bytes.check_tree(data, entries) if kind == TREE else fsck_bytes.check(kind, data)
    for finding in found:
        severity = "warning" if finding.kind in fsck_bytes.WARNINGS else "error"
        what = f"{KIND_NAME[kind]} {name.hex()}: {finding.what}"
        yield Problem(where, what, severity, finding.kind, "made by another program; write the commit again")
    try:
        inventory.add(number, kind, links_of(kind, data) if entries is None else links_of_entries(entries))
        inventory.hostile = inventory.hostile or (entries is not None and fsck_bytes.is_hostile(entries))
    except StoreError:  # told by its bytes
        inventory.kinds[number] = kind


def _loose(inventory: Inventory, repository: Repository, object_hex: str) -> Iterator[Problem]:
    try:
        kind, data = read_loose(repository.git, object_hex)
    except StoreError as error:
        yield _damaged(repository.name, object_hex, error.message)
        return
    yield from judge(inventory, repository.name, inventory.of(object_hex), kind, data)


def _damaged(where: str, object_hex: str, why: str) -> Problem:
    return Problem(where, f"object {object_hex} is damaged ({why})", kind="badObject", remedy=_COPY)


def _misnamed(where: str, object_hex: str) -> Problem:
    what = f"object {object_hex} is damaged: its bytes have another id"
    return Problem(where, what, kind="hashMismatch", remedy=_COPY)


# --- files -----------------------------------------------------------------------------------------------
def _files(repository: Repository) -> Iterator[Problem]:
    for path, why in repository.broken:
        where = f"{repository.name}/{path.stem}"
        if path.exists():
            yield Problem(where, why, kind="badPackIndex", remedy=_REPAIR)
        else:
            yield Problem(where, f"{path.name}: missing, though its index is there", kind="missingPack", remedy=_COPY)
    folder = repository.git / "objects" / "pack"
    names = set(os.listdir(folder)) if folder.is_dir() else set()
    for name in sorted(names):
        path = folder / name
        if name.endswith(".pack") and f"{name[:-5]}.idx" not in names:
            what = f"{name}: has no index, so that nobody sees what it holds"
            yield Problem(repository.name, what, kind="packWithoutIndex", remedy=_REPAIR)
        elif not _PACK_NAME.fullmatch(name) and not name.startswith("multi-pack-index") and _is_stale(path):
            what = f"objects/pack/{name}: left by a writer that was killed"
            yield Problem(repository.name, what, "warning", "staleTemporaryFile", _REPAIR)
    yield from _maps(repository)
    yield from _strays(repository)


def _is_stale(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > STALE_S
    except OSError:
        return False


def derived_files(git: Path) -> list[Path]:
    """Files that another git derived from packs and commits."""
    objects = git / "objects"
    found = [p for suffix in ("rev", "bitmap", "mtimes") for p in (objects / "pack").glob(f"*.{suffix}")]
    found += [objects / "pack" / "multi-pack-index", objects / "info" / "commit-graph"]
    found += (objects / "info" / "commit-graphs").glob("*.graph")
    return sorted(path for path in found if path.is_file())


def is_sound_derived(path: Path) -> bool:
    """Whether a derived file ends in its own checksum and names only packs that exist."""
    try:
        fd = open_plain(path)
    except OSError:
        return False
    try:
        size = os.fstat(fd).st_size
        if size < 40 or checksum(fd, size - 20) != os.pread(fd, 20, size - 20):
            return False
    finally:
        os.close(fd)
    return path.name != "multi-pack-index" or not _gone_packs(path)


def _gone_packs(path: Path) -> list[str]:
    """Packs that a multi-pack index names and that do not exist."""
    with os.fdopen(open_plain(path), "rb") as file:
        named = set(re.findall(rb"pack-[0-9a-f]{40}\.idx", file.read(1 << 22)))
    return sorted(name.decode() for name in named if not (path.parent / name.decode()).exists())


def _maps(repository: Repository) -> Iterator[Problem]:
    for path in derived_files(repository.git):
        if path.name == "multi-pack-index" and _gone_packs(path):
            what = f"multi-pack-index: names {_gone_packs(path)[0]}, which does not exist"
            yield Problem(repository.name, what, kind="badMultiPackIndex", remedy=_REPAIR)
        elif not is_sound_derived(path):
            what = f"{path.relative_to(repository.git)}: checksum differs, a byte was changed"
            yield Problem(repository.name, what, kind="badDerivedFile", remedy=_REPAIR)


def _strays(repository: Repository) -> Iterator[Problem]:
    objects = repository.git / "objects"
    for short in sorted(os.listdir(objects)):
        folder = objects / short
        if len(short) == 2 and folder.is_dir() and all(c in "0123456789abcdef" for c in short):
            for name in sorted(os.listdir(folder)):
                if re.fullmatch("[0-9a-f]{38}", name):
                    continue
                stale = name.startswith("tmp_obj_")
                if not stale or _is_stale(folder / name):
                    what = f"objects/{short}/{name}: " + ("left by a writer that was killed" if stale else "no object")
                    kind = "staleTemporaryFile" if stale else "badLooseName"
                    yield Problem(repository.name, what, "warning", kind, _REPAIR)


# --- reachability ----------------------------------------------------------------------------------------
def check_links(inventory: Inventory) -> Iterator[Problem]:
    """Objects that are of another kind than those that name them say."""
    kinds = inventory.kinds
    for number in range(inventory.count):
        links = inventory.links(number)
        if not links:
            continue
        expected = inventory.expected(number)
        found = bytes(map(kinds.__getitem__, links))
        if found == expected:
            continue
        for link, want, have in zip(links, expected, found, strict=True):
            if have not in (0, want):
                what = f"{KIND_NAME[have]} {inventory.name(link)} is named as a {KIND_NAME[want]}"
                by = f"{KIND_NAME[kinds[number]]} {inventory.name(number)}"
                yield Problem(_place(inventory, number), f"{what} by {by}", kind="wrongKind")


def check_reach(inventory: Inventory, n: int, roots: list[int], bit: int) -> Iterator[Problem]:
    """What the refs of repository `n` reach must be where that repository sees it. Sets the bit on all of it."""
    inventory.mark(roots, bit)
    name, sees = inventory.repositories[n].name, inventory.visible(n)
    marks, places, kinds = inventory.marks, inventory.places, inventory.kinds
    for number in sorted(inventory.missing):
        if marks[number] & bit:
            by = f"{KIND_NAME[kinds[number]]} {inventory.name(number)}"
            for item, kind in inventory.missing[number]:
                if item != _EMPTY_TREE:
                    yield _missing(name, kind, item.hex(), by)
    elsewhere = bytes(1 if not place & sees else 0 for place in range(256))
    if any(places.translate(elsewhere)):
        for number in range(inventory.count):
            if marks[number] & bit and not places[number] & sees:
                yield _missing(name, kinds[number] or BLOB, inventory.name(number), "objects that its refs reach")


_EMPTY_TREE = hashlib.sha1(b"tree 0\0", usedforsecurity=False).digest()


def _missing(where: str, kind: int, object_hex: str, by: str) -> Problem:
    names = {TREE: "missingTree", COMMIT: "missingCommit", BLOB: "missingBlob"}
    what = f"{KIND_NAME[kind]} {object_hex} is missing, named by {by}"
    return Problem(where, what, kind=names.get(kind, "missingTag"), remedy=_COPY)


def check_dangling(inventory: Inventory, bit: int) -> Iterator[Problem]:
    """Unreachable objects that no other unreachable one names: what git calls dangling."""
    named = bytearray(inventory.count)
    for number in range(inventory.count):
        if not inventory.marks[number] & bit:
            for link in inventory.links(number):
                named[link] = 1
    for number in range(inventory.count):
        if not inventory.marks[number] & bit and not named[number] and inventory.kinds[number]:
            what = f"dangling {KIND_NAME[inventory.kinds[number]]} {inventory.name(number)}"
            yield Problem(_place(inventory, number), what, "info", "dangling", "rover gc, after its grace period")


def _place(inventory: Inventory, number: int) -> str:
    place = inventory.places[number]
    return next(r.name for i, r in enumerate(inventory.repositories) if place & 1 << min(i, 7))
