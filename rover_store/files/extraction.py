"""Writing a tree to a disk. Another git may have made the tree: every name is checked before the first byte.

Nothing is written outside the folder and no link is made or followed. What cannot be written as it is, is refused
with its path; then nothing is left behind.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rover_store.errors import PackageError, StoreError
from rover_store.files.intake import LIMITS
from rover_store.files.safe_names import folded, refusal, shown
from rover_store.objects import Objects
from rover_store.packs import TREE
from rover_store.trees import EXECUTABLE, LINK, SUBMODULE, Level, TreeItem, encode_tree, parse_tree

#: what a path on disk can hold below the folder, with room for where the folder lies
PATH_BYTES, DEPTH = 3000, 200
#: a few small trees that name each other can stand for more files than any disk holds
FILES = LIMITS.files
_KINDS = {LINK: "is a link", SUBMODULE: "is a submodule"}
_BIG = 1 << 20


class Plan(NamedTuple):
    """What will be written: folders, parents first, and files."""

    folders: list[str]
    files: dict[str, TreeItem]


def plan(objects: Objects, tree: str, name: str, reserved: tuple[str, ...] = ()) -> Plan:
    """Check all names and kinds below a tree. PackageError names the first path that cannot be written.

    `name` is what the paths of messages begin with; `reserved` are names that nothing at the top may have.
    """
    found = Plan([], {})
    waiting = [("", tree)]
    while waiting:
        prefix, here = waiting.pop()
        if prefix.count("/") > DEPTH:
            raise _refused(name, prefix, f"nested deeper than {DEPTH} folders")
        if len(found.files) + len(found.folders) > FILES:
            raise PackageError(name, "", f"holds more than {FILES} files")
        seen: dict[str, str] = {}
        for entry, item in _level(objects, here, f"{name}/{prefix}").items():
            path = prefix + entry
            reason = refusal(entry) or _kind(item)
            if not reason and folded(entry) in seen:
                reason = f"the same name as {seen[folded(entry)]!r} where case does not count"
            if not reason and len(path.encode()) > PATH_BYTES:
                reason = f"the path is longer than {PATH_BYTES} bytes"
            if not reason and path in reserved:
                reason = "the name is reserved"
            if reason:
                raise _refused(name, path, reason)
            seen[folded(entry)] = entry
            if item.is_folder:
                found.folders.append(path)
                waiting.append((f"{path}/", item.id))
            else:
                found.files[path] = item
    found.folders.sort()
    return found


def write_folder(
    objects: Objects, planned: Plan, target: Path, finish: Callable[[Path], None], *, replace: bool = False
) -> None:
    """Write a plan as a folder that appears whole or not at all. `finish` may add to it before it appears.

    The target must not exist or be an empty folder, unless it is to be replaced. StoreError where the disk refuses.
    """
    made = _parents(target)
    try:
        outer = Path(tempfile.mkdtemp(prefix=".rover-checkout-", dir=target.parent))
        try:
            inner = outer / "new"
            inner.mkdir()
            for path in planned.folders:
                os.mkdir(f"{inner}/{path}")
            for path, item in planned.files.items():
                _write_file(objects, f"{inner}/{path}", item)
            finish(inner)
            if replace:
                os.rename(target, outer / "old")
            elif target.exists():
                target.rmdir()
            try:
                os.rename(inner, target)
            except OSError:
                if replace:
                    os.rename(outer / "old", target)
                raise
            made = []
        finally:
            shutil.rmtree(outer, ignore_errors=True)
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error.strerror}") from None
    finally:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()


def _level(objects: Objects, tree: str, where: str) -> Level:
    kind, data = objects.get(tree)
    if kind != TREE:
        raise StoreError(f"{where}: {tree} is no tree")
    level = parse_tree(data)
    if encode_tree(level) != data:
        names = [name for name in _names(data) if name]
        twice = next((n for n in names if names.count(n) > 1), None) if len(names) < 10_000 else None
        reason = "two entries have this name" if twice else "its entries are out of order"
        raise PackageError(shown(where + (twice or "")), "", f"{reason}; it was not written by rover")
    return level


def _names(data: bytes) -> Iterator[str]:
    at = 0
    while at < len(data):
        zero = data.index(b"\0", at)
        yield data[data.index(b" ", at) + 1 : zero].decode("utf-8", "surrogateescape")
        at = zero + 21


def _kind(item: TreeItem) -> str:
    if item.is_folder or stat.S_ISREG(item.mode):
        return ""
    return f"{_KINDS.get(item.mode, f'has mode {item.mode:o}')}, not a plain file; it was not written by rover"


def _refused(name: str, path: str, reason: str) -> PackageError:
    return PackageError(shown(f"{name}/{path}"), "", reason)


def _write_file(objects: Objects, target: str, item: TreeItem) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(target, flags, 0o777 if item.mode == EXECUTABLE else 0o666)
    with os.fdopen(fd, "wb") as file:
        if objects.size(item.id) <= _BIG:
            file.write(objects.read(item.id))
        else:
            for chunk in objects.stream(item.id):
                file.write(chunk)


def _parents(target: Path) -> list[Path]:
    """Make the folders above the target. Returns those that were made, the deepest first."""
    missing = []
    for folder in target.parents:
        if folder.exists():
            break
        missing.append(folder)
    try:
        for folder in reversed(missing):
            folder.mkdir()
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error.strerror}") from None
    return missing
