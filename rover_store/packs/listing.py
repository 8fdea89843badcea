"""The packs of a folder as one thing to search.

Asking 40 packs one by one takes 20 to 30 us. Where enough is asked for, the ids of the small packs are gathered in one
table, which takes one. A multi-pack index on disk would do the same, but every commit would have to write it anew.
"""

from __future__ import annotations

from rover_store.packs.read import Pack

#: packs up to this many objects are gathered, up to so many ids in all
_SMALL, _GATHERED = 1 << 13, 200_000
#: gathering one id costs as much as asking this part of a pack
_COST = 4


class PackList:
    """Packs, in the order in which they are asked. Threads may share it."""

    def __init__(self, packs: list[Pack], before: PackList | None = None) -> None:
        self.packs = packs
        self._table: dict[bytes, Pack] = {}
        self._rest = packs
        self._asked = 0
        self._gathered: set[Pack] = set()
        if before is not None and before._gathered <= set(packs):  # what was gathered stays
            self._table, self._gathered = before._table, before._gathered
            self._rest = [pack for pack in packs if pack not in self._gathered]
            self._asked = before._asked
        small = sorted((p for p in self._rest if p.count <= _SMALL), key=lambda p: (p.count, p.name))
        room, self._small = _GATHERED - len(self._table), list[Pack]()
        for pack in small:
            room -= pack.count
            if room >= 0:
                self._small.append(pack)
        self._pays = sum(pack.count for pack in self._small) // _COST

    def find(self, name: bytes) -> tuple[Pack, int] | None:
        """Pack and offset of an object."""
        pack = self._table.get(name)
        if pack is not None and (offset := pack.find(name)) is not None:
            return pack, offset
        rest = self._rest
        for i, pack in enumerate(rest):
            offset = pack.find(name)
            if offset is not None:
                if i > 3:  # what was hit last is likely hit next
                    self._rest = [pack, *rest[:i], *rest[i + 1 :]]
                self._count(i)
                return pack, offset
        self._count(len(rest))
        return None

    def has(self, name: bytes) -> bool:
        """Whether an object is in one of the packs."""
        return name in self._table or self.find(name) is not None

    def _count(self, asked: int) -> None:
        if len(self._small) > 1:
            self._asked += asked
            if self._asked > self._pays:
                self._gather()

    def _gather(self) -> None:
        small, self._small = self._small, []
        table = dict(self._table)
        for pack in small:
            table.update(dict.fromkeys(pack.names(), pack))
        self._table, self._gathered = table, self._gathered | set(small)
        self._rest = [pack for pack in self._rest if pack not in self._gathered]
        self._asked = 0
