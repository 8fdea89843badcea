"""Checking a store: every object and ref of its repositories, the ties between records, the index against git.

Every packed and loose object is inflated and hashed again, so a flipped byte is found; every ref and every id that
a reachable tree, commit or tag names must exist. Problems are returned, never raised, and never repaired here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from rover_store import graph, index_build, layout
from rover_store.commits import parse_commit, parse_tag
from rover_store.errors import NotFound, PackageError, StoreError
from rover_store.names import check_name, package_path
from rover_store.objects import BROKEN, Objects
from rover_store.packs import COMMIT, KIND_NAME, TAG, TREE, Pack, object_id
from rover_store.refs import HEADS, Refs
from rover_store.trees import FOLDER, SUBMODULE, parse_tree

if TYPE_CHECKING:
    from rover_store.store import Store


class Problem(NamedTuple):
    """One thing that is wrong. `where` is a repository, ref, object, package or the index."""

    where: str
    what: str


def fsck(store: Store) -> list[Problem]:
    """All problems, in a stable order."""
    evidence = Objects(store.folder / "evidence.git")
    problems: list[Problem] = []
    parts = [("store", store.objects), ("evidence", evidence)]
    if (store.folder / "sealed.git").exists():
        parts.append(("sealed", Objects(store.folder / "sealed.git")))
    for name, objects in parts:
        if not (objects.folder / "pack").is_dir():
            problems.append(Problem(f"{name}.git", "missing or not a git repository"))
            continue
        try:
            packs = objects.packs
        except StoreError as error:  # an index that cannot be read hides what its pack holds
            problems.append(Problem(f"{name}.git", error.message))
            continue
        problems += _objects(name, objects, packs)
        problems += _refs(name, objects)
    if not problems:  # what lies on a broken ground is not worth judging
        problems += _ties(store)
        problems += _index(store)
    return problems


# --- objects ---------------------------------------------------------------------------------------------
def _objects(name: str, objects: Objects, packs: list[Pack]) -> Iterator[Problem]:
    for pack in packs:
        yield from _pack(f"{name}.git/{pack.name}", pack, objects)
    for folder in sorted(objects.folder.glob("[0-9a-f][0-9a-f]")):
        for file in sorted(folder.iterdir()):
            object_hex = folder.name + file.name
            if len(object_hex) == 40:
                yield from _same(f"{name}.git", object_hex, objects)


def _pack(where: str, pack: Pack, objects: Objects) -> Iterator[Problem]:
    for path in (pack.path, pack.path.with_suffix(".idx")):
        try:
            data = memoryview(path.read_bytes())
        except OSError as error:
            yield Problem(where, f"{path.name}: {error.strerror}")
            return
        if hashlib.sha1(data[:-20], usedforsecurity=False).digest() != data[-20:]:
            yield Problem(where, f"{path.name}: checksum differs, a byte was changed")
    for i, name in enumerate(pack.names()):
        try:
            kind, content = pack.read(pack.offset(i), lambda n: objects.get(n.hex()))
            if object_id(kind, content) != name.hex():
                yield Problem(where, f"object {name.hex()} is damaged: its bytes have another id")
        except (StoreError, *BROKEN) as error:
            yield Problem(where, f"object {name.hex()} is damaged ({error})")


def _same(where: str, object_hex: str, objects: Objects) -> Iterator[Problem]:
    try:
        kind, content = objects.get(object_hex)
        if object_id(kind, content) != object_hex:
            yield Problem(where, f"object {object_hex} is damaged: its bytes have another id")
    except StoreError as error:
        yield Problem(where, error.message)


# --- refs and what they reach ----------------------------------------------------------------------------
def _refs(name: str, objects: Objects) -> Iterator[Problem]:
    refs = Refs(objects.git)
    try:
        head = refs.head()
        if not head.startswith(HEADS):
            yield Problem(f"{name}.git", f"HEAD does not name a branch: {head[:60]!r}")
    except StoreError as error:
        yield Problem(f"{name}.git", error.message)
    seen: set[str] = set()
    for ref in sorted({*refs.loose(), *refs.packed()}):
        try:
            value = refs.get(ref)
        except StoreError as error:
            yield Problem(f"{name}.git", error.message)
            continue
        if value is not None and not objects.exists(value):
            yield Problem(f"{name}.git", f"{ref} names {value}, which does not exist")
        elif value is not None:
            for what in _reach(value, objects, seen):
                yield Problem(f"{name}.git", f"{what} (reached from {ref})")


def _reach(start: str, objects: Objects, seen: set[str]) -> Iterator[str]:
    waiting = [(start, "ref", False)]
    while waiting:
        here, source, is_blob = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        if is_blob:  # its bytes were checked where it lies
            if not objects.exists(here):
                yield f"blob {here} is missing, named by {source}"
            continue
        try:
            kind, data = objects.get(here)
        except NotFound:
            yield f"object {here} is missing, named by {source}"
            continue
        except StoreError:
            continue  # told already, where it lies
        label = f"{KIND_NAME[kind]} {here[:12]}"
        try:
            if kind == COMMIT:
                commit = parse_commit(here, data)
                waiting += [(i, label, False) for i in (commit.tree, *commit.parents)]
            elif kind == TAG:
                waiting.append((parse_tag(here, data)[0], label, False))
            elif kind == TREE:
                waiting += [(i.id, label, i.mode != FOLDER) for i in parse_tree(data).values() if i.mode != SUBMODULE]
        except StoreError as error:
            yield error.message


# --- records ---------------------------------------------------------------------------------------------
def _ties(store: Store) -> Iterator[Problem]:
    """Names, places and pins of the packages of every branch's head."""
    for branch, head in store.branches().items():
        root = store.revisions.load(head).tree
        for path, name, tree in layout.package_places(store.objects, root):
            where = f"{branch}:{name}"
            try:
                check_name(name)
            except PackageError as error:
                yield Problem(where, error.reason)
            if path != package_path(name):
                yield Problem(where, "lies in the wrong folder of the tree")
            record = index_build.package_json(store.objects, tree)
            if record.get("name") != name:
                yield Problem(where, f"package.json: name: says {record.get('name')!r}")
        edges, present = index_build.graph_of(store.objects, root)
        for edge in edges:
            where = f"{branch}:{edge.source}"
            if edge.source not in present:
                yield Problem(where, f"package.json: edges: {edge.source} does not exist")
            if edge.target not in present:
                yield Problem(where, f"package.json: edges: depends on {edge.target}, which does not exist")
            if not store.objects.exists(edge.version):
                yield Problem(where, f"package.json: edges: {edge.target} at {edge.version[:12]}, which does not exist")
        try:
            graph.order(present, edges)
        except StoreError as error:
            yield Problem(branch, error.message)


# --- index -----------------------------------------------------------------------------------------------
def _index(store: Store) -> Iterator[Problem]:
    """The index against what git says now. It repairs holes by itself; what is left was changed by a hand."""
    head = store.refs.head_id()
    if head is None:
        return
    root = store.revisions.load(head).tree
    listed = {p.name: p.tree for p in store.index.packages("*")}
    if listed != layout.package_trees(store.objects, root):
        yield Problem("index", "its packages are not those of the head; run `rover reindex`")
    edges, present = index_build.graph_of(store.objects, root)
    if store.index.graph() != (sorted(set(edges)), dict(sorted(present.items()))):
        yield Problem("index", "its nodes or edges are not those of the head; run `rover reindex`")
    counted = store.index.ask(lambda db: db.execute("SELECT count(*) FROM history WHERE shown").fetchone()[0])
    if counted != _count_commits(store, head):
        yield Problem("index", "its history is not that of the head; run `rover reindex`")
    rollouts = list(store.evidence.ids())
    if rollouts != store.index.rollouts({}):
        yield Problem("index", "its rollouts are not those of the evidence; run `rover reindex`")


def _count_commits(store: Store, head: str) -> int:
    seen, waiting = {head}, [head]
    while waiting:
        fresh = [p for p in store.revisions.load(waiting.pop()).parents if p not in seen]
        seen.update(fresh)
        waiting += fresh
    return len(seen)


