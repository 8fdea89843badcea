"""The writing side of gc: one new pack of what is wanted, then the old ones go.

Unreachable objects that are still young go into packs of their own, one for each day of their age, which keep that
age: else every collection would make them young again. A pack that is large, whole and free of garbage stays as it
is. Deltas of another git are written out whole where their pack must be rewritten.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from rover_store.care.gc import REACHED, WRITTEN, YOUNG
from rover_store.care.inventory import Inventory, Repository, loose_path, read_loose
from rover_store.errors import StoreError
from rover_store.lock import RepositoryLock
from rover_store.packs import KIND_NAME, PackWriter, fsync_folder
from rover_store.packs.format import read_header
from rover_store.packs.scan import Deltas, PackFile
from rover_store.rollup import remove_packs

#: a pack of this size that holds no garbage is not copied
LARGE_PACK = 1 << 30
_DAY = 86400
_UNWRITTEN = bytes(mark & ~WRITTEN for mark in range(256))


def rewrite(inventory: Inventory, repository: Repository, lock: RepositoryLock, since: float) -> dict[str, Any]:
    """Collect one repository, under its lock. Returns the fields of `Collected` that are known only now."""
    work = _Rewrite(inventory, repository, lock, since)
    work.run()
    folder = repository.git / "objects" / "pack"
    packs = [f for f in os.listdir(folder) if f.endswith(".pack")]
    left = [name for name in repository.loose if loose_path(repository.git, name).exists()]
    size = sum((folder / f).stat().st_size for f in os.listdir(folder) if f.endswith((".pack", ".idx")))
    size += sum(loose_path(repository.git, name).stat().st_size for name in left)
    return {"packs_after": len(packs), "loose_after": len(left), "size_after": size}


class _Rewrite:
    """One repository under collection."""

    def __init__(self, inventory: Inventory, repository: Repository, lock: RepositoryLock, since: float) -> None:
        self.inventory = inventory
        self.repository = repository
        self.lock = lock
        self.since = since
        self.folder = repository.git / "objects" / "pack"
        self.marks = inventory.marks
        self.marks[:] = self.marks.translate(_UNWRITTEN)

    def run(self) -> None:
        sources = self._sources()
        loose = [n for n in self.repository.loose if self._mark(n) & REACHED]
        if sources or loose:
            self._consolidate(sources, loose)
        self._loose(loose)
        self._stale_maps()

    def _mark(self, object_hex: str) -> int:
        return self.marks[self.inventory.of(object_hex)]

    def _sources(self) -> list[PackFile]:
        """Packs that are written again. What the others hold counts as written."""
        small, whole = [], []
        names = set(os.listdir(self.folder))
        for pack in self.repository.packs:
            if f"{pack.name}.keep" in names or f"{pack.name}.promisor" in names:
                self._written(pack)
                continue
            marks = [self.marks[n] & (REACHED | YOUNG) for n in self.inventory.numbers(pack)]
            if marks and all(m & REACHED for m in marks):
                whole.append(pack)
            elif marks and all(m == YOUNG for m in marks) and pack.modified > self.since:
                continue  # all of it waits for the end of its grace, in a pack that knows its age
            else:
                small.append(pack)
        large = [p for p in whole if p.size >= LARGE_PACK or p.has_deltas]
        for pack in large:
            self._written(pack)
        rest = [p for p in whole if p not in large]
        if len(rest) == 1 and not small and not any(self._mark(n) & REACHED for n in self.repository.loose):
            self._written(rest[0])
            return []
        return sorted([*rest, *small], key=lambda p: (p.modified, p.name))

    def _written(self, pack: PackFile) -> None:
        for number in self.inventory.numbers(pack):
            self.marks[number] |= WRITTEN

    def _consolidate(self, sources: list[PackFile], loose: list[str]) -> None:
        main = PackWriter(self.folder)
        young: dict[int, tuple[PackWriter, float]] = {}
        writers = [main]
        try:
            for pack in sources:
                self._copy(pack, main, REACHED)
            for name in loose:
                number = self.inventory.of(name)
                if not self.marks[number] & WRITTEN:
                    self.marks[number] |= WRITTEN
                    main.add(*read_loose(self.repository.git, name), name)
            for pack in sources:
                age = pack.modified
                if age > self.since:
                    day = int(age // _DAY)
                    writer, newest = young.get(day) or (PackWriter(self.folder), 0.0)
                    writers.append(writer)
                    young[day] = (writer, max(newest, age))
                    self._copy(pack, writer, YOUNG)
                else:  # what a young object names stays with it, as young as that
                    self._copy(pack, main, YOUNG)
            kept = {self._finish(main, None)}
            for writer, age in young.values():
                kept.add(self._finish(writer, age))
        finally:
            for writer in writers:
                writer.abort()
        self._remove([pack for pack in sources if pack.name not in kept])

    def _copy(self, pack: PackFile, writer: PackWriter, bit: int) -> None:
        """Copy the records of a pack that have a mark and were not written yet."""
        inventory, marks, numbers = self.inventory, self.marks, self.inventory.numbers(pack)
        if not any(marks[n] & bit and not marks[n] & WRITTEN for n in numbers):
            return

        def asked(i: int) -> bool:
            mark = marks[numbers[i]]
            return bool(mark & bit) and not mark & WRITTEN

        deltas = Deltas(pack, inventory.base)
        for i, start, stop, record in pack.raw(asked):
            name = pack.name_at(i)
            marks[numbers[i]] |= WRITTEN
            if read_header(record[:32] if record is not None else pack.read_at(start, 32), 0)[0] not in KIND_NAME:
                writer.add(*deltas.read(start), name.hex())
                continue
            if record is None:
                writer.copy_record(name, pack.pieces(start, stop))
            else:
                writer.add_record(name, record)
            if writer.entries[name][1] != pack.crc(i):  # never carried into a pack whose checksum calls it sound
                raise StoreError(f"{pack.path.name}: object {name.hex()} is damaged", hint="rover fsck, before gc")

    def _finish(self, writer: PackWriter, age: float | None) -> str:
        name = writer.finish(lambda name: self.lock.write(f"pack {name}")) or ""
        if name and age is not None:
            for suffix in (".pack", ".idx"):
                os.utime(self.folder / f"{name}{suffix}", (age, age))
        return name

    def _remove(self, gone: list[PackFile]) -> None:
        remove_packs(self.folder, [pack.name for pack in gone], self.lock)
        fsync_folder(self.folder)
        self.lock.clear()

    def _loose(self, packed: list[str]) -> None:
        """Loose objects that are in a pack now, and those that nothing needs, go."""
        there = set(packed)
        for name in self.repository.loose:
            if name in there or not self._mark(name) & (REACHED | YOUNG):
                loose_path(self.repository.git, name).unlink(missing_ok=True)
                with suppress(OSError):
                    loose_path(self.repository.git, name).parent.rmdir()

    def _stale_maps(self) -> None:
        """A commit-graph or list of packs that another git derived may name what is gone."""
        info = self.repository.git / "objects" / "info"
        for path in (info / "commit-graph", *sorted((info / "commit-graphs").glob("*")), info / "packs"):
            with suppress(OSError):
                Path(path).unlink(missing_ok=True)
