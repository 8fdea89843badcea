"""Every object of some repositories by number, with what it names: the ground of fsck, gc and stats.

About forty bytes an object, so that a store of a million objects is walked in a few dozen megabytes: ids lie in one
sorted string, kinds and marks in byte arrays, what a tree or commit names in one array of numbers.
An object that several repositories or packs hold is one object here.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rover_store.errors import StoreError
from rover_store.packs import BLOB, COMMIT, KIND_CODE, TAG, TREE
from rover_store.packs.scan import PackFile
from rover_store.plain_file import read_plain

_ENTRY = re.compile(rb"([0-7]+) ([^\0]+)\0(.{20})", re.DOTALL)
_HEAD = re.compile(rb"(tree|parent) ([0-9a-f]{40})$", re.MULTILINE)
_OBJECT = re.compile(rb"^object ([0-9a-f]{40})\ntype ([a-z]+)\n")
#: so many ids are sorted at once, more of them by their first byte
_FEW = 200_000
#: a dictionary of so many is worth its ten megabytes
_QUICK = 50_000
_LOOSE = re.compile(r"[0-9a-f]{38}")
#: modes of tree entries that are folders, and of submodules, whose commits lie elsewhere
_FOLDER, _SUBMODULE = (b"40000", b"040000"), b"160000"

Links = list[tuple[bytes, int]]
Entries = list[tuple[bytes, bytes, bytes]]


class Repository(NamedTuple):
    """A repository as files: its packs and its loose objects.

    `broken`: packs whose index cannot be used, and why. `own`: it belongs to the store and is not only borrowed from.
    """

    name: str
    git: Path
    packs: tuple[PackFile, ...]
    loose: tuple[str, ...]
    broken: tuple[tuple[Path, str], ...]
    own: bool

    def close(self) -> None:
        for pack in self.packs:
            pack.close()


def store_repositories(folder: Path) -> list[Path]:
    """The repositories of a store, those that it has now; `folder` is its .rover."""
    names = ("store.git", "evidence.git", "sealed.git")
    return [folder / name for name in names if (folder / name / "objects" / "pack").is_dir()]


def open_repositories(own: Sequence[Path]) -> list[Repository]:
    """Repositories of a store, and behind them those that they borrow objects from."""
    order = [git.resolve() for git in own]
    opened: list[Repository] = []
    try:
        for n, git in enumerate(order):  # grows while it is walked
            opened.append(open_repository(own[n] if n < len(own) else git, own=n < len(own)))
            order += [other for other in alternates(git) if other not in order]
    except BaseException:
        for repository in opened:
            repository.close()
        raise
    return opened


def alternates(git: Path) -> list[Path]:
    """Repositories that one borrows objects from, directly, where they exist."""
    try:
        lines = read_plain(git / "objects" / "info" / "alternates").decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []
    found = [(git / "objects" / line).resolve().parent for line in lines if line and line[0] != "#"]
    return [other for other in found if (other / "objects").is_dir()]


def open_repository(git: Path, *, own: bool = True) -> Repository:
    """Packs with their indexes, and loose objects, of a bare repository."""
    folder = git / "objects"
    loose: list[str] = []
    for short in sorted(os.listdir(folder)):
        if len(short) == 2 and all(c in "0123456789abcdef" for c in short) and (folder / short).is_dir():
            loose += [short + f for f in sorted(os.listdir(folder / short)) if _LOOSE.fullmatch(f)]
    packs, broken = _packs(folder / "pack")
    return Repository(git.name, git, packs, tuple(loose), broken, own)


def _packs(folder: Path) -> tuple[tuple[PackFile, ...], tuple[tuple[Path, str], ...]]:
    """Packs of a folder, and those that cannot be used. Where a writer rolls some together meanwhile: once more."""
    packs: list[PackFile] = []
    broken: list[tuple[Path, str]] = []
    gone = False
    try:
        for file in sorted(os.listdir(folder)) if folder.is_dir() else ():
            if file.startswith("pack-") and file.endswith(".idx"):
                path = f"{folder}/{file[:-4]}.pack"
                try:
                    packs.append(PackFile(path))
                except StoreError as error:
                    broken.append((Path(path), error.message))
                except OSError as error:
                    gone = gone or not (folder / file).exists()
                    broken.append((Path(path), f"{file[:-4]}.pack: {error.strerror}"))
    except BaseException:
        for pack in packs:
            pack.close()
        raise
    if gone:
        for pack in packs:
            pack.close()
        return _packs(folder)
    return tuple(packs), tuple(broken)


class Inventory:
    """Objects by number. `kinds`: 0 unknown, else git's code. `marks`: bits that a caller sets."""

    def __init__(self, repositories: Sequence[Repository]) -> None:
        self.repositories = tuple(repositories)
        self.ids = _sorted_ids(self.repositories)
        self.count = len(self.ids) // 20
        self.kinds = bytearray(self.count)
        self.marks = bytearray(self.count)
        #: a bit for each repository that holds the object
        self.places = bytearray(self.count)
        self._wide = 2 if self.count > 1 << 12 else 1
        #: of few objects a dictionary, which is quicker; of many a search in the string, which is small
        self._known: dict[bytes, int] | None = None
        if self.count < _QUICK:
            self._known = {self.ids[at : at + 20]: at // 20 for at in range(0, len(self.ids), 20)}
        self._fan = self._fanout() if self._known is None else array("Q")
        self._first = array("Q", bytes(8 * self.count))
        self._links = array("I", [0])
        self._expected = bytearray(1)
        #: bytes on disk and bytes of the content, where `read` was asked for them; of a delta those of the delta
        self.stored, self.whole = array("Q"), array("Q")
        #: what an object names and no repository holds: number -> (id, kind)
        self.missing: dict[int, Links] = {}
        #: whether a tree was seen that not every file system can hold, or that holds more than files
        self.hostile = False
        self._numbers: dict[PackFile, array[int]] = {}
        for n, repository in enumerate(self.repositories):
            self._place(repository, 1 << min(n, 7))

    def visible(self, n: int) -> int:
        """Bits of the places that one repository sees: its own and those that it borrows from."""
        gits = [repository.git.resolve() for repository in self.repositories]
        waiting, found = [gits[n]], 0
        while waiting:
            at = gits.index(waiting.pop())
            if not found & 1 << min(at, 7):
                found |= 1 << min(at, 7)
                waiting += [git for git in alternates(gits[at]) if git in gits]
        return found

    def number(self, name: bytes) -> int:
        """Number of an object, -1 if no repository holds it."""
        if self._known is not None:
            return self._known.get(name, -1)
        prefix = int.from_bytes(name[: self._wide], "big")
        low, high = self._fan[prefix], self._fan[prefix + 1]
        at = self.ids.find(name, low, high)
        while at % 20 and at >= 0:
            at = self.ids.find(name, at + 1, high)
        return at // 20 if at >= 0 else -1

    def of(self, object_hex: str) -> int:
        """Number of an object by its hexadecimal id, -1 if it is not there or no id at all."""
        try:
            name = bytes.fromhex(object_hex)
        except ValueError:
            return -1
        return self.number(name) if len(name) == 20 else -1

    def numbers(self, pack: PackFile) -> array[int]:
        """Numbers of a pack's objects, in the order of its index."""
        return self._numbers[pack]

    def name(self, number: int) -> str:
        """Hexadecimal id of an object by its number."""
        return self.ids[20 * number : 20 * number + 20].hex()

    def add(self, number: int, kind: int, links: Links) -> None:
        """Keep what an object is and names."""
        self.kinds[number] = kind
        if not links or self._first[number]:
            return
        known = self._known
        numbers = [known.get(n, -1) for n, _ in links] if known is not None else [self.number(n) for n, _ in links]
        expected = bytes([kind for _, kind in links])
        if -1 in numbers:
            self.missing[number] = [link for link, n in zip(links, numbers, strict=True) if n < 0]
            expected = bytes([k for k, n in zip(expected, numbers, strict=True) if n >= 0])
            numbers = [n for n in numbers if n >= 0]
        self._first[number] = len(self._links)
        self._links.append(len(numbers))
        self._links.extend(numbers)
        self._expected += b"\0" + expected

    def links(self, number: int) -> Sequence[int]:
        """Numbers of what an object names."""
        at = self._first[number]
        return self._links[at + 1 : at + 1 + self._links[at]] if at else ()

    def expected(self, number: int) -> bytes:
        """Kinds that an object's links must have, in their order."""
        at = self._first[number]
        return bytes(self._expected[at + 1 : at + 1 + self._links[at]]) if at else b""

    def mark(self, roots: Iterable[int], bit: int) -> None:
        """Set a bit on the roots and on all that they reach."""
        waiting = [n for n in roots if n >= 0]
        marks, first, links = self.marks, self._first, self._links
        while waiting:
            here = waiting.pop()
            if marks[here] & bit:
                continue
            marks[here] |= bit
            at = first[here]
            if at:
                waiting += links[at + 1 : at + 1 + links[at]]

    def marked(self, bit: int) -> int:
        """How many objects have a bit."""
        return sum(1 for m in self.marks if m & bit)

    def read(self, tick: Callable[[int], None] | None = None, *, sizes: bool = False) -> list[tuple[str, str]]:
        """Learn kinds and links (and `sizes`) from all packs in pack order, without inflating blobs.

        Returns what could not be read: id and reason.
        """
        bad: list[tuple[str, str]] = []
        done = 0
        if sizes:
            self.stored, self.whole = (array("Q", bytes(8 * self.count)) for _ in range(2))
        for repository in self.repositories:
            for pack in repository.packs:
                numbers = self.numbers(pack)
                for item in pack.items(self.base, blobs=False):
                    number = numbers[item.number]
                    if sizes:
                        self.stored[number], self.whole[number] = item.stored, item.size
                    if item.error:
                        bad.append((self.name(number), item.error))
                    elif item.data is None or item.kind == BLOB:
                        self.kinds[number] = item.kind
                    else:
                        try:
                            self.add(number, item.kind, links_of(item.kind, item.data))
                        except StoreError as error:
                            bad.append((self.name(number), error.message))
                    done += 1
                    if tick is not None and done % 4096 == 0:
                        tick(done)
            for object_hex in repository.loose:
                number = self.of(object_hex)
                if sizes:
                    self.stored[number] = loose_size(repository.git, object_hex)
                try:
                    kind, data = read_loose(repository.git, object_hex)
                    self.add(number, kind, links_of(kind, data))
                    if sizes:
                        self.whole[number] = len(data)
                except StoreError as error:
                    bad.append((object_hex, error.message))
        return bad

    def base(self, name: bytes) -> tuple[int, bytes]:
        """Any object, wherever it lies: the base of a delta that its pack does not hold."""
        for data in self.copies(name):
            return data
        raise StoreError(f"the base {name.hex()} is missing")

    def copies(self, name: bytes) -> Iterator[tuple[int, bytes]]:
        """Readable copies of an object, of whatever bytes."""
        from rover_store.packs.scan import Deltas

        for repository in self.repositories:
            for pack in repository.packs:
                number = pack.find(name)
                if number is not None:
                    try:
                        yield Deltas(pack, self.base).read(pack.offset(number))
                    except Exception as error:  # damaged bytes raise anything
                        if not isinstance(error, StoreError | ValueError | IndexError | OSError) and type(
                            error
                        ).__module__ not in ("zlib", "struct"):
                            raise
            try:
                yield read_loose(repository.git, name.hex())
            except StoreError:
                continue

    def close(self) -> None:
        for repository in self.repositories:
            repository.close()

    def _place(self, repository: Repository, bit: int) -> None:
        places, number = self.places, self.number
        for pack in repository.packs:
            if pack.count == self.count:  # it holds all there is, in the same order
                self._numbers[pack] = array("I", range(self.count))
            else:
                ids = pack.ids()
                found = [number(ids[at : at + 20]) for at in range(0, len(ids), 20)]
                self._numbers[pack] = array("I", found)
            for n in self._numbers[pack]:
                places[n] |= bit
        for object_hex in repository.loose:
            places[self.of(object_hex)] |= bit

    def _fanout(self) -> array[int]:
        size = 256**self._wide
        counts = array("Q", bytes(8 * (size + 1)))
        if self._wide == 1:
            for first in self.ids[::20]:
                counts[first + 1] += 20
        else:
            for high, low in zip(self.ids[::20], self.ids[1::20], strict=True):
                counts[(high << 8 | low) + 1] += 20
        for i in range(size):
            counts[i + 1] += counts[i]
        return counts


def links_of(kind: int, data: bytes) -> Links:
    """What an object names: ids and the kinds they must have. StoreError where it cannot be parsed."""
    if kind == TREE:
        found = entries_of(data)
        if found is None:
            raise StoreError("a tree object is damaged")
        return links_of_entries(found)
    if kind == COMMIT:
        head = data.partition(b"\n\n")[0]
        return [
            (bytes.fromhex(name.decode()), TREE if key == b"tree" else COMMIT) for key, name in _HEAD.findall(head)
        ]
    if kind == TAG:
        match = _OBJECT.match(data)
        if match is None or match[2].decode() not in KIND_CODE:
            raise StoreError("a tag object is damaged")
        return [(bytes.fromhex(match[1].decode()), KIND_CODE[match[2].decode()])]
    return []


def entries_of(data: bytes) -> Entries | None:
    """Mode, name and id of every entry of a tree, None where it cannot be parsed."""
    found: Entries = _ENTRY.findall(data)
    whole = sum(map(len, map(b"".join, found))) + 2 * len(found)  # a space and a zero byte in each
    return found if whole == len(data) else None


def links_of_entries(entries: Entries) -> Links:
    """Ids that the entries of a tree name, and their kinds; commits of submodules lie elsewhere."""
    return [(name, TREE if mode in _FOLDER else BLOB) for mode, _, name in entries if mode != _SUBMODULE]


def loose_path(git: Path, object_hex: str) -> Path:
    """Where a loose object lies."""
    return git / "objects" / object_hex[:2] / object_hex[2:]


def loose_size(git: Path, object_hex: str) -> int:
    """Bytes of a loose object's file; 0 where it is gone."""
    try:
        return loose_path(git, object_hex).stat().st_size
    except FileNotFoundError:
        return 0


def read_loose(git: Path, object_hex: str) -> tuple[int, bytes]:
    """Kind and bytes of a loose object. StoreError if it is missing, damaged or has bytes behind its end."""
    import zlib

    try:
        raw = read_plain(loose_path(git, object_hex))
    except OSError as error:
        raise StoreError(f"loose object {object_hex} cannot be read: {error.strerror}") from None
    whole = zlib.decompressobj()
    try:
        content = whole.decompress(raw)
    except zlib.error as error:
        raise StoreError(f"loose object {object_hex} is damaged ({error})") from None
    if not whole.eof:
        raise StoreError(f"loose object {object_hex} is cut short")
    if whole.unused_data:
        raise StoreError(f"loose object {object_hex} has garbage behind its end")
    head, zero, data = content.partition(b"\0")
    kind, _, size = head.partition(b" ")
    if not zero or kind not in (b"blob", b"tree", b"commit", b"tag") or not size.isdigit():
        raise StoreError(f"loose object {object_hex} has no valid header")
    if int(size) != len(data) or (size[:1] == b"0" and len(size) > 1):
        raise StoreError(f"loose object {object_hex} says another size than it has")
    return KIND_CODE[kind.decode()], data


def _sorted_ids(repositories: Sequence[Repository]) -> bytes:
    loose: dict[int, list[bytes]] = {}
    for repository in repositories:
        for object_hex in repository.loose:
            loose.setdefault(int(object_hex[:2], 16), []).append(bytes.fromhex(object_hex))
    packs = [pack for repository in repositories for pack in repository.packs]
    if sum(pack.count for pack in packs) < _FEW and len(packs) > 1:
        names = {name for few in loose.values() for name in few}
        for pack in packs:
            ids = pack.ids()
            names.update([ids[i : i + 20] for i in range(0, len(ids), 20)])
        return b"".join(sorted(names))
    out = bytearray()
    for first in range(256):
        names = set(loose.get(first, ()))
        for pack in packs:
            if pack.fanout[first] != pack.fanout[first + 1]:
                block = pack.block(first)
                names.update([block[i : i + 20] for i in range(0, len(block), 20)])
        out += b"".join(sorted(names))
    return bytes(out)
