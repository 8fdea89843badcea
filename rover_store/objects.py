"""The objects of one repository: reading over packs, loose files and alternates. Writing is `packs.PackWriter`.

Ids are 40 hex digits. A missing object is NotFound, a damaged one StoreError; both name it. What is read is hashed
again, so wrong bytes are never given. Blobs of any size are read with `stream` and `open`; `read` gives them whole.
Safe for threads and for a forked child: nothing here depends on a file position.
"""

from __future__ import annotations

import io
import os
import re
import struct
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rover_store import trees
from rover_store.errors import NotFound, StoreError
from rover_store.packs import BLOB, COMMIT, KIND_NAME, TREE, Pack, PackWriter, loose, object_hash, object_id
from rover_store.packs.format import TooLarge
from rover_store.packs.listing import PackList
from rover_store.trees import EMPTY_TREE, FOLDER, Level, TreeItem, parse_tree

if TYPE_CHECKING:
    from typing_extensions import Buffer

_ID = re.compile(r"[0-9a-f]{40}")
#: what reading damaged bytes raises
BROKEN = (struct.error, IndexError, ValueError, zlib.error)
#: a pack may go away between finding and reading; looked for again this often
_TRIES = 20
#: entries of parsed trees that are kept
_LEVEL_ENTRIES = 300_000
_BATCH = 1 << 16
_BULK = 1 << 18
#: alternates of alternates are followed this deep, as in git
_DEPTH = 5


class Objects:
    """All objects of a bare repository at `git`."""

    def __init__(self, git: Path, folder: Path | None = None) -> None:
        self.git = git
        self.folder = folder or git / "objects"  # given for an alternate, whose own ones are not asked
        self._folder = str(self.folder)
        self._list = PackList([])
        self._stamp: tuple[int, ...] = ()
        self._racy = True
        self._lock = threading.RLock()
        self._alternates: list[Objects] | None = None if folder is None else []
        self._levels: dict[str, Level] = {}
        self._kept = 0
        self._loose_folders: frozenset[str] | None = None
        self._recent: dict[str, tuple[int, bytes]] = {}

    # --- reading -----------------------------------------------------------------------------------------
    def read(self, object_hex: str) -> bytes:
        """Bytes of a blob."""
        return self._read_as(object_hex, BLOB)

    def read_commit(self, object_hex: str) -> bytes:
        return self._read_as(object_hex, COMMIT)

    def get(self, object_hex: str) -> tuple[int, bytes]:
        """Kind and bytes of any object."""
        found = self._recent.get(object_hex) or self._get(object_hex)
        if found is None:
            if object_hex == EMPTY_TREE:
                return TREE, b""
            raise NotFound("object", object_hex)
        return found

    def kind(self, object_hex: str) -> str:
        """commit, tree, blob or tag."""
        return KIND_NAME[self._look(object_hex)[0]]

    def size(self, object_hex: str) -> int:
        """Bytes of an object, without reading them."""
        return self._look(object_hex)[1]

    def stream(self, object_hex: str) -> Iterator[bytes]:
        """Bytes of a blob in chunks, whatever its size. Damage shows at its end at the latest: then StoreError."""
        kind, size = self._look(object_hex)
        if kind != BLOB:
            raise NotFound("blob", object_hex, hint=f"it is a {KIND_NAME[kind]}")
        return self._stream(object_hex, size)

    def open(self, object_hex: str) -> BinaryIO:
        """A blob as a file to read from its beginning, whatever its size."""
        return io.BufferedReader(_Stream(self.stream(object_hex)))

    def exists(self, object_hex: str) -> bool:
        """Whether the object is here or in an alternate."""
        if not _ID.fullmatch(object_hex):
            return False
        if self._locate(object_hex) is not None or os.path.exists(self._loose(object_hex)):
            return True
        return any(other.exists(object_hex) for other in self.alternates)

    def known(self, object_hex: str) -> bool:
        """Whether the object is here, as far as the packs were looked at: quick, and may miss what is new."""
        name = bytes.fromhex(object_hex)
        if self._list.has(name):
            return True
        if self._loose_folders is None:
            self._loose_folders = frozenset(f for f in os.listdir(self._folder) if len(f) == 2)
        if object_hex[:2] in self._loose_folders and os.path.exists(self._loose(object_hex)):
            return True
        return any(other.known(object_hex) for other in self.alternates)

    def read_many(self, ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Blobs, each once, in the order in which they lie on disk: the quick way to read many."""
        waiting, seen = iter(ids), set()
        while batch := sorted({i for i in islice(waiting, _BATCH) if i not in seen}):
            seen.update(batch)
            found = [self._locate(object_hex) for object_hex in batch]
            places = sorted((at[0].name, at[1], n) for n, at in enumerate(found) if at is not None)
            for _, offset, n in places:
                at, object_hex = found[n], batch[n]
                assert at is not None
                try:
                    yield object_hex, _as(object_hex, BLOB, self._get_at(object_hex, at[0], offset, _BULK))
                except FileNotFoundError:  # the pack went away meanwhile
                    yield object_hex, self.read(object_hex)
            for object_hex, at in zip(batch, found, strict=True):
                if at is None:
                    yield object_hex, self.read(object_hex)

    def list_tree(self, tree_hex: str) -> Level:
        """Entries of one folder."""
        level = self._levels.get(tree_hex)
        if level is None:
            level = parse_tree(self._read_as(tree_hex, TREE))
            self._kept += len(level) + 2
            if self._kept > _LEVEL_ENTRIES:
                self._levels.clear()
                self._kept = len(level)
            self._levels[tree_hex] = level
        return dict(level)

    def read_tree(self, tree_hex: str) -> dict[str, TreeItem]:
        """All files below a tree: path -> mode and blob id, sorted by path. StoreError beyond `trees.MOST_FILES`."""
        out: dict[str, TreeItem] = {}
        waiting = [("", tree_hex)]  # no recursion: another git may have pushed a tree of any depth
        while waiting:
            prefix, here = waiting.pop()
            for name, item in self.list_tree(here).items():
                if item.is_folder:
                    waiting.append((f"{prefix}{name}/", item.id))
                else:
                    out[prefix + name] = item
            if len(out) + len(waiting) > trees.MOST_FILES:
                raise StoreError(f"tree {tree_hex} stands for more than {trees.MOST_FILES} files")
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
        found = {name for pack in self._list.packs for name in pack.matching(prefix)}
        folder = self.folder / prefix[:2]
        if folder.is_dir():
            names = (prefix[:2] + file for file in os.listdir(folder))
            found |= {name for name in names if name.startswith(prefix) and _ID.fullmatch(name)}
        for other in self.alternates:
            found |= set(other.matching(prefix))
        return sorted(found)

    # --- packs -------------------------------------------------------------------------------------------
    @property
    def alternates(self) -> list[Objects]:
        """Other repositories whose objects are read here too, those of an alternate among them, each once."""
        if self._alternates is None:
            folders = loose.alternates(self.folder, _DEPTH)
            self._alternates = [Objects(folder.parent, folder) for folder in folders]
        return self._alternates

    @property
    def packs(self) -> list[Pack]:
        """Packs as they are on disk now."""
        self.refresh()
        return list(self._list.packs)

    def refresh(self, *, force: bool = False) -> bool:
        """Look for packs that came or went. True if something changed."""
        with self._lock:
            changed = False
            for _ in range(_TRIES):
                again, came = self._list_packs(force)
                changed = changed or came
                if not again:
                    break
            if force:
                self._loose_folders, self._recent = None, {}
            return changed

    def up_to_date(self) -> None:
        """Look again, here and in the alternates: what a writer does under its lock, before it trusts what it knows."""
        for one in (self, *self.alternates):
            one.refresh()

    def wrote(self, writer: PackWriter) -> None:
        """Look for the pack that a writer of this process has just made visible; what it wrote last is read next."""
        self.refresh(force=True)
        self._recent = writer.recent

    def _list_packs(self, force: bool) -> tuple[bool, bool]:
        """List the packs anew. Whether one went away meanwhile, so that another may be there; whether any changed."""
        folder = f"{self._folder}/pack"
        try:
            state = os.stat(folder)
        except FileNotFoundError:
            return False, False
        stamp = (state.st_mtime_ns, state.st_ino, os.getpid())
        if stamp == self._stamp and not force and not self._racy:
            return False, False
        # a folder's time has the grain of the kernel's tick: a younger listing may have missed a rename
        self._racy = time.time_ns() - state.st_mtime_ns < 50_000_000
        names = {f[:-4] for f in os.listdir(folder) if f.startswith("pack-") and f.endswith(".idx")}
        known = {pack.name for pack in self._list.packs}
        kept = [pack for pack in self._list.packs if pack.name in names]
        fresh, gone = [], False
        for name in sorted(names - known):
            try:
                fresh.append(Pack(Path(folder, f"{name}.pack")))
            except FileNotFoundError:  # rolled together by another process a moment ago
                gone = True
        changed = bool(fresh) or len(kept) != len(known)
        if changed:
            self._list = PackList(fresh + kept, self._list)
        self._stamp = stamp
        self._racy = self._racy or gone
        return gone, changed

    # --- within ------------------------------------------------------------------------------------------
    def _read_as(self, object_hex: str, kind: int) -> bytes:
        return _as(object_hex, kind, self.get(object_hex))

    def _get(self, object_hex: str) -> tuple[int, bytes] | None:
        for _ in range(_TRIES):
            at = self._find(object_hex)
            if at is None:
                break
            try:
                return self._get_at(object_hex, *at)
            except FileNotFoundError:  # the pack went away between finding and reading
                self._look_again()
        try:
            file = self._open_loose(object_hex)
            if file is None:
                return None
            return file.kind, _check(object_hex, file.kind, file.whole())
        except BROKEN as error:
            raise _damaged(object_hex, error) from None
        except StoreError as error:
            raise _damaged(object_hex, error) from None

    def _get_at(self, object_hex: str, pack: Pack, offset: int, ahead: int = 0) -> tuple[int, bytes]:
        """The object at a place, its deltas followed wherever their bases are."""
        folds: list[tuple[Pack, list[tuple[int, bytes]]]] = []
        bases: set[bytes] = set()
        try:
            while True:
                folds.append((pack, []))
                found = pack.unfold(offset, folds[-1][1], ahead)
                if not isinstance(found, bytes):
                    break
                at = self._find(found.hex())
                if at is None:
                    file = self._open_loose(found.hex())
                    if file is None:
                        raise StoreError(f"its base {found.hex()} is missing")
                    found = file.kind, file.whole()
                    break
                if found in bases:
                    raise StoreError("its deltas go round in a circle")
                bases.add(found)
                pack, offset = at
            for one, chain in reversed(folds):
                found = one.fold(found, chain)
            return found[0], _check(object_hex, *found)
        except (*BROKEN, MemoryError) as error:
            raise _damaged(object_hex, str(error) or "too large for the memory") from None
        except StoreError as error:
            raise _damaged(object_hex, error) from None

    def _look(self, object_hex: str) -> tuple[int, int]:
        """Kind and size of an object, without its content."""
        for _ in range(_TRIES):
            try:
                return self._look_once(object_hex)
            except FileNotFoundError:
                self._look_again()
            except NotFound:
                raise
            except (*BROKEN, StoreError) as error:
                raise _damaged(object_hex, error) from None
        raise NotFound("object", object_hex)

    def _look_once(self, object_hex: str) -> tuple[int, int]:
        name, size, bases = object_hex, -1, set[str]()
        while name not in bases:
            bases.add(name)
            at = self._find(name)
            if at is None:
                file = self._open_loose(name)
                if file is not None:
                    return file.kind, file.size if size < 0 else size
                if object_hex == EMPTY_TREE:
                    return TREE, 0
                if bases == {object_hex}:
                    raise NotFound("object", object_hex)
                raise StoreError(f"its base {name} is missing")
            kind, here = at[0].look(at[1])
            size = here if size < 0 else size
            if isinstance(kind, int):
                return kind, size
            name = kind.hex()
        raise StoreError("its deltas go round in a circle")

    def _stream(self, object_hex: str, size: int) -> Iterator[bytes]:
        digest = object_hash(BLOB, size)
        try:
            for chunk in self._chunks(object_hex):
                digest.update(chunk)
                yield chunk
        except (*BROKEN, StoreError) as error:
            raise _damaged(object_hex, error) from None
        if digest.hexdigest() != object_hex:
            raise _damaged(object_hex, "its bytes have another id")

    def _chunks(self, object_hex: str) -> Iterator[bytes]:
        for _ in range(_TRIES):
            at = self._find(object_hex)
            if at is None:
                file = self._open_loose(object_hex)
                if file is None:
                    raise NotFound("object", object_hex)
                return file.chunks
            try:
                return at[0].stream(at[1]) or iter((self.read(object_hex),))
            except FileNotFoundError:
                self._look_again()
        raise NotFound("object", object_hex)

    def _find(self, object_hex: str) -> tuple[Pack, int] | None:
        """Pack and offset of an object, here or in an alternate."""
        at = self._locate(object_hex)
        if at is None:
            for other in self.alternates:
                at = other._locate(object_hex)
                if at is not None:
                    break
        return at

    def _locate(self, object_hex: str) -> tuple[Pack, int] | None:
        name = bytes.fromhex(object_hex)
        for _ in range(_TRIES):
            packs = self._list
            at = packs.find(name)
            if at is not None:
                return at
            self.refresh()
            if self._list is packs:  # nothing came since, through this thread or another
                return None
        return None

    def _look_again(self) -> None:
        for one in (self, *self.alternates):
            one.refresh(force=True)

    def _loose(self, object_hex: str) -> str:
        return f"{self._folder}/{object_hex[:2]}/{object_hex[2:]}"

    def _open_loose(self, object_hex: str) -> loose.Loose | None:
        for one in (self, *self.alternates):
            file = loose.open_loose(one._loose(object_hex))
            if file is not None:
                return file
        return None


class _Stream(io.RawIOBase):
    """Chunks as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        with memoryview(buffer) as target:
            n = min(len(target), len(self._rest))
            target[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        return n


def _as(object_hex: str, kind: int, found: tuple[int, bytes]) -> bytes:
    if found[0] != kind:
        raise NotFound(KIND_NAME[kind], object_hex, hint=f"it is a {KIND_NAME[found[0]]}")
    return found[1]


def _check(object_hex: str, kind: int, data: bytes) -> bytes:
    if object_id(kind, data) != object_hex:
        raise StoreError("its bytes have another id")
    return data


def _damaged(object_hex: str, why: str | BaseException) -> StoreError:
    if isinstance(why, TooLarge):
        return TooLarge(f"object {object_hex}", why.size)
    return StoreError(f"object {object_hex} is damaged ({why})", hint="rover fsck")
