"""The objects of one repository: reading over packs, loose files and alternates. Writing is `packs.PackWriter`.

Ids are 40 hex digits. A missing object is NotFound, a damaged one StoreError; both name it.
Safe for threads and for a forked child: nothing here depends on a file position.
"""

from __future__ import annotations

import os
import re
import struct
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from rover_store.errors import NotFound, StoreError
from rover_store.packs import BLOB, COMMIT, KIND_CODE, KIND_NAME, TREE, Pack
from rover_store.trees import EMPTY_TREE, FOLDER, Level, TreeItem, parse_tree

_ID = re.compile(r"[0-9a-f]{40}")
#: what reading damaged bytes raises
BROKEN = (struct.error, IndexError, ValueError, zlib.error)


class Objects:
    """All objects of a bare repository at `git`."""

    def __init__(self, git: Path) -> None:
        self.git = git
        self.folder = git / "objects"
        self._folder = str(self.folder)
        self._packs: list[Pack] = []
        self._stamp: tuple[int, ...] = ()
        self._racy = True
        self._lock = threading.RLock()
        self._alternates: list[Objects] | None = None
        self._levels: dict[str, Level] = {}

    # --- reading -----------------------------------------------------------------------------------------
    def read(self, object_hex: str) -> bytes:
        """Bytes of a blob."""
        return self._read_as(object_hex, BLOB)

    def read_commit(self, object_hex: str) -> bytes:
        return self._read_as(object_hex, COMMIT)

    def get(self, object_hex: str) -> tuple[int, bytes]:
        """Kind and bytes of any object."""
        found = self._get(object_hex)
        if found is None:
            if object_hex == EMPTY_TREE:
                return TREE, b""
            raise NotFound("object", object_hex)
        return found

    def kind(self, object_hex: str) -> str:
        """commit, tree, blob or tag."""
        return KIND_NAME[self.get(object_hex)[0]]

    def exists(self, object_hex: str) -> bool:
        """Whether the object is here or in an alternate."""
        if not _ID.fullmatch(object_hex):
            return False
        if self._locate(object_hex) is not None or os.path.exists(self._loose(object_hex)):
            return True
        return any(other.exists(object_hex) for other in self.alternates)

    def read_many(self, ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Blobs in the order in which they lie on disk: the quick way to read many."""
        def place(object_hex: str) -> tuple[str, int]:
            at = self._locate(object_hex)
            return (at[0].name, at[1]) if at else ("", 0)

        for object_hex in sorted(set(ids), key=place):
            yield object_hex, self.read(object_hex)

    def list_tree(self, tree_hex: str) -> Level:
        """Entries of one folder."""
        level = self._levels.get(tree_hex)
        if level is None:
            level = parse_tree(self._read_as(tree_hex, TREE))
            if len(self._levels) > 50_000:
                self._levels.clear()
            self._levels[tree_hex] = level
        return dict(level)

    def read_tree(self, tree_hex: str) -> dict[str, TreeItem]:
        """All files below a tree: path -> mode and blob id, sorted by path."""
        out: dict[str, TreeItem] = {}
        self._walk(tree_hex, "", out)
        return dict(sorted(out.items()))

    def subtree(self, tree_hex: str, path: str) -> TreeItem | None:
        """What lies at a path below a tree, None if nothing does. An empty path is the tree itself."""
        item = TreeItem(FOLDER, tree_hex)
        for part in path.split("/") if path else ():
            if not item.is_folder:
                return None
            inner = self.list_tree(item.id).get(part)
            if inner is None:
                return None
            item = inner
        return item

    def matching(self, prefix: str) -> list[str]:
        """Ids of this repository that begin with some hex digits (at least 4), sorted."""
        self.refresh()
        found = {name for pack in list(self._packs) for name in pack.matching(prefix)}
        loose = self.folder / prefix[:2]
        if loose.is_dir():
            found |= {prefix[:2] + f for f in os.listdir(loose) if (prefix[:2] + f).startswith(prefix) and len(f) == 38}
        for other in self.alternates:
            found |= set(other.matching(prefix))
        return sorted(found)

    # --- packs -------------------------------------------------------------------------------------------
    @property
    def alternates(self) -> list[Objects]:
        if self._alternates is None:
            file = self.folder / "info" / "alternates"
            lines = file.read_text().splitlines() if file.exists() else []
            self._alternates = [
                Objects((self.folder / line).resolve().parent) for line in lines if line and line[0] != "#"
            ]
        return self._alternates

    @property
    def packs(self) -> list[Pack]:
        """Packs as they are on disk now."""
        self.refresh()
        return list(self._packs)

    def refresh(self, *, force: bool = False) -> bool:
        """Look for packs that came or went. True if something changed."""
        folder = f"{self._folder}/pack"
        try:
            state = os.stat(folder)
        except FileNotFoundError:
            return False
        stamp = (state.st_mtime_ns, state.st_ino, os.getpid())
        with self._lock:
            if stamp == self._stamp and not force and not self._racy:
                return False
            # a folder's time has the grain of the kernel's tick: a younger listing may have missed a rename
            self._racy = time.time_ns() - state.st_mtime_ns < 50_000_000
            names = {f[:-4] for f in os.listdir(folder) if f.startswith("pack-") and f.endswith(".idx")}
            known = {pack.name: pack for pack in self._packs}
            kept = [pack for pack in self._packs if pack.name in names]
            fresh = []
            for name in sorted(names - known.keys()):
                try:
                    fresh.append(Pack(Path(folder, f"{name}.pack")))
                except FileNotFoundError:  # rolled together by another process a moment ago
                    continue
            changed = bool(fresh) or len(kept) != len(known)
            self._packs = fresh + kept
            self._stamp = stamp
            return changed

    # --- within ------------------------------------------------------------------------------------------
    def _read_as(self, object_hex: str, kind: int) -> bytes:
        found, data = self.get(object_hex)
        if found != kind:
            raise NotFound(KIND_NAME[kind], object_hex, hint=f"it is a {KIND_NAME[found]}")
        return data

    def _get(self, object_hex: str) -> tuple[int, bytes] | None:
        try:
            for _ in range(3):
                at = self._locate(object_hex)
                if at is None:
                    break
                try:
                    return at[0].read(at[1], self._outside)
                except FileNotFoundError:  # the pack went away between finding and reading
                    self.refresh(force=True)
            loose = self._read_loose(object_hex)
        except BROKEN as error:
            raise StoreError(f"object {object_hex} is damaged ({error})", hint="rover fsck") from None
        except StoreError as error:
            raise StoreError(f"object {object_hex} is damaged ({error.message})", hint="rover fsck") from None
        if loose is not None:
            return loose
        for other in self.alternates:
            found = other._get(object_hex)
            if found is not None:
                return found
        return None

    def _outside(self, name: bytes) -> tuple[int, bytes]:
        return self.get(name.hex())

    def _locate(self, object_hex: str) -> tuple[Pack, int] | None:
        name = bytes.fromhex(object_hex)
        for _ in range(3):
            packs = self._packs
            for i, pack in enumerate(packs):
                offset = pack.find(name)
                if offset is not None:
                    if i > 3:  # what was hit last is likely hit next
                        self._to_front(pack, packs)
                    return pack, offset
            self.refresh()
            if self._packs is packs:  # another thread may have looked for packs since
                return None
        return None

    def _to_front(self, pack: Pack, packs: list[Pack]) -> None:
        with self._lock:
            if self._packs is packs:  # else it was read anew, and what is new must not be lost
                self._packs = [pack, *(p for p in packs if p is not pack)]

    def _loose(self, object_hex: str) -> str:
        return f"{self._folder}/{object_hex[:2]}/{object_hex[2:]}"

    def _read_loose(self, object_hex: str) -> tuple[int, bytes] | None:
        try:
            with open(self._loose(object_hex), "rb") as file:
                raw = zlib.decompress(file.read())
        except FileNotFoundError:
            return None
        header, _, data = raw.partition(b"\0")
        kind, _, size = header.partition(b" ")
        if int(size) != len(data) or kind.decode() not in KIND_CODE:
            raise StoreError("wrong size")
        return KIND_CODE[kind.decode()], data

    def _walk(self, tree_hex: str, prefix: str, out: dict[str, TreeItem]) -> None:
        for name, item in self.list_tree(tree_hex).items():
            if item.is_folder:
                self._walk(item.id, f"{prefix}{name}/", out)
            else:
                out[prefix + name] = item


