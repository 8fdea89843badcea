"""Git trees as values: parse, encode, the id of a set of files, and edits that rewrite only the touched folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from rover_store.errors import StoreError
from rover_store.packs import TREE, object_id

FILE, EXECUTABLE, LINK, FOLDER, SUBMODULE = 0o100644, 0o100755, 0o120000, 0o040000, 0o160000
#: parts of a path that is written: a workspace's path of 1024 bytes has no more, and the stack holds them. What another
#: git nested deeper is read, and goes on as it is
DEEPEST = 520
#: a few small trees that name each other can stand for more files than any memory holds: beyond this they are refused
MOST_FILES = 2_000_000
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


class TreeItem(NamedTuple):
    """One entry of a tree: git's mode and the object's id."""

    mode: int
    id: str

    @property
    def is_folder(self) -> bool:
        return self.mode == FOLDER


Level = dict[str, TreeItem]


_MODES = {b"%o" % mode: mode for mode in (FILE, EXECUTABLE, LINK, FOLDER, SUBMODULE)}
_PREFIXES = {mode: b"%o " % mode for mode in (FILE, EXECUTABLE, LINK, FOLDER, SUBMODULE)}


def parse_tree(data: bytes) -> Level:
    """Entries of one tree object, in git's order. A name that is not UTF-8 keeps its bytes as surrogates."""
    out: Level = {}
    at, end, index, new = 0, len(data), data.index, tuple.__new__
    try:
        while at < end:
            zero = index(b"\0", at)
            mode, space, name = data[at:zero].partition(b" ")
            at = zero + 21
            if not space or at > end:
                raise ValueError
            item = (_MODES[mode] if mode in _MODES else _octal(mode), data[zero + 1 : at].hex())
            out[name.decode("utf-8", "surrogateescape")] = new(TreeItem, item)  # trees are parsed by the million
    except ValueError:
        raise StoreError("a tree object is damaged") from None
    return out


def _octal(mode: bytes) -> int:
    if not mode.isdigit() or len(mode) > 7:
        raise ValueError
    return int(mode, 8)


def encode_tree(level: Mapping[str, TreeItem]) -> bytes:
    """One tree object. Folders sort as if their name ended in `/`, as git wants it."""
    rows = []
    for name, (mode, item_id) in level.items():
        raw = name.encode("utf-8", "surrogateescape")
        prefix = _PREFIXES.get(mode) or b"%o " % mode
        rows.append((raw + b"/" if mode == FOLDER else raw, prefix + raw + b"\0" + bytes.fromhex(item_id)))
    rows.sort()
    return b"".join([row for _, row in rows])


@lru_cache(maxsize=4096)
def check_path(path: str) -> tuple[str, ...]:
    """Parts of a path inside a tree. StoreError where git would refuse it."""
    parts = tuple(path.split("/"))
    if len(parts) > DEEPEST:
        raise StoreError(f"{path[:80]!r}... is nested deeper than {DEEPEST} folders")
    for part in parts:
        if part in ("", ".", "..") or part.lower() == ".git" or "\0" in part:
            raise StoreError(f"{path!r} is not a path that a tree can hold")
    return parts


def tree_id(files: Mapping[str, tuple[int, str]]) -> str:
    """Id of the tree that these files make (path -> mode, object id), without writing anything."""
    return write_level(nest(files), lambda _kind, data: object_id(TREE, data))


class _Folder(dict[str, "TreeItem | _Folder"]):
    """A folder under construction."""


def nest(files: Mapping[str, tuple[int, str]]) -> _Folder:
    """Paths as nested folders. A path that is both a file and a folder is a StoreError."""
    root = _Folder()
    for path, (mode, item_id) in files.items():
        *parents, name = check_path(path)
        here = root
        for part in parents:
            inner = here.setdefault(part, _Folder())
            if not isinstance(inner, _Folder):
                raise StoreError(f"{path!r}: {part!r} is a file and a folder")
            here = inner
        if name in here:
            raise StoreError(f"{path!r} is a file and a folder")
        here[name] = TreeItem(mode, item_id)
    return root


def write_level(folder: _Folder, write: Callable[[int, bytes], str]) -> str:
    """Write a nest of folders, the deepest first; `write` takes a kind and bytes and gives the id."""
    level: Level = {}
    for name, item in folder.items():
        level[name] = TreeItem(FOLDER, write_level(item, write)) if isinstance(item, _Folder) else item
    return write(TREE, encode_tree(level))


def edit_tree(
    base: str | None,
    edits: Mapping[str, TreeItem | None],
    read: Callable[[str], Level],
    write: Callable[[int, bytes], str],
) -> str:
    """Id of `base` with some paths set (a folder too) or deleted (None). Only the touched folders are rewritten.

    Deleting what is not there changes nothing; a folder that becomes empty disappears.
    """
    split = {check_path(path): item for path, item in edits.items()}
    return _edit(base, split, read, write) or write(TREE, b"")


def _edit(
    base: str | None,
    edits: Mapping[tuple[str, ...], TreeItem | None],
    read: Callable[[str], Level],
    write: Callable[[int, bytes], str],
) -> str | None:
    level = dict(read(base)) if base is not None else {}
    inner: dict[str, dict[tuple[str, ...], TreeItem | None]] = {}
    for parts, item in edits.items():
        if len(parts) > 1:
            inner.setdefault(parts[0], {})[parts[1:]] = item
        elif item is None:
            level.pop(parts[0], None)
        else:
            level[parts[0]] = item
    for name, below in inner.items():
        old = level.get(name)
        if old is not None and not old.is_folder and all(item is None for item in below.values()):
            continue
        new = _edit(old.id if old is not None and old.is_folder else None, below, read, write)
        if new is None:
            level.pop(name, None)
        else:
            level[name] = TreeItem(FOLDER, new)
    return write(TREE, encode_tree(level)) if level else None
