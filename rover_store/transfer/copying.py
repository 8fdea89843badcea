"""Copying what refs reach from one repository to another: every object is read, hashed and checked on the way.

What the target has is not copied, nor what lies below it. A tree that git would refuse (`.git`, `..`, a wrong order)
is refused by name: an object of another store is never trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from rover_store.care.fsck_bytes import WARNINGS, check
from rover_store.commits import parse_commit, parse_tag
from rover_store.errors import PackageError
from rover_store.objects import Objects
from rover_store.packs import BLOB, COMMIT, KIND_NAME, TAG, TREE, object_id
from rover_store.trees import EMPTY_TREE, FOLDER, SUBMODULE, parse_tree

#: a blob that is larger than this is copied in chunks
LARGE = 32 << 20


class Target(Protocol):
    """Where objects go: a transaction, or the writer of a pack."""

    def add(self, kind: int, data: bytes, /) -> str: ...
    def add_stream(self, kind: int, size: int, chunks: Iterable[bytes], name: str, /) -> str: ...


def copy_objects(source: Objects, tips: Iterable[str], have: Callable[[str], bool], target: Target) -> int:
    """Copy what `tips` reach and the target lacks, parents and parts of it alike. Returns how many objects."""
    count = 0
    for name, kind, data in missing(source, tips, have):
        if data is None:
            target.add_stream(kind, source.size(name), source.stream(name), name)  # hashed on both sides
        else:
            checked(name, kind, data)
            target.add(kind, data)
        count += 1
    return count


def checked(name: str, kind: int, data: bytes) -> None:
    """PackageError where the bytes are not what the id says, or git would refuse them."""
    if object_id(kind, data) != name:
        raise PackageError(f"{KIND_NAME[kind]} {name}", "", "its bytes have another id; refused")
    bad = [f for f in check(kind, data) if f.kind not in WARNINGS]
    if bad:
        raise PackageError(f"{KIND_NAME[kind]} {name}", bad[0].kind, f"{bad[0].what}; refused")


def missing(
    source: Objects, tips: Iterable[str], have: Callable[[str], bool]
) -> Iterator[tuple[str, int, bytes | None]]:
    """Objects to copy, each once. Blobs come last, in the order in which they lie on disk; large ones without bytes."""
    waiting = [tip for tip in tips if not have(tip)]
    seen = set(waiting)
    blobs: set[str] = set()

    def later(name: str) -> None:
        if name not in seen and name != EMPTY_TREE:
            seen.add(name)
            if not have(name):
                waiting.append(name)

    while waiting:
        name = waiting.pop()
        kind, data = source.get(name)
        yield name, kind, data
        if kind == COMMIT:
            found = parse_commit(name, data)
            for below in (*found.parents, found.tree):
                later(below)
        elif kind == TAG:
            later(parse_tag(name, data)[0])
        elif kind == TREE:
            for item in parse_tree(data).values():
                if item.mode == FOLDER:
                    later(item.id)
                elif item.mode != SUBMODULE and item.id not in seen and item.id not in blobs:
                    blobs.add(item.id)
    large: list[str] = []

    def small(name: str) -> bool:
        if source.size(name) > LARGE:
            large.append(name)
        return not large or large[-1] != name

    for name, data in source.read_many(b for b in blobs if not have(b) and small(b)):
        yield name, BLOB, data
    for name in sorted(large):
        yield name, BLOB, None
