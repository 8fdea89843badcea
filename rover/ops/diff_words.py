"""What the words of `rover diff` mean, and the comparison they ask for.

Words: `A..B`, `A...B` (from where both histories part), `A B`, one revision (against HEAD), REV:PATH on both sides, ids
of trees and files that rollouts left, or a package folder; then paths that narrow it. Without words: the newest commit
against its parent.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from rover.ops.diff import Comparison, Narrow, Side
from rover_store.diffs import diff as trees
from rover_store.diffs.diff import FileDiff
from rover_store.errors import NotFound, UsageError
from rover_store.names import COMPONENTS, package_path
from rover_store.objects import Objects
from rover_store.revisions.syntax import split_dots
from rover_store.trees import EMPTY_TREE

if TYPE_CHECKING:
    from rover_store.store import Store


def compare(store: Store, words: Sequence[str], package: str = "*", components: Sequence[str] = ()) -> Comparison:
    """The comparison that the words of a command line ask for. NotFound, Ambiguous or UsageError say what is wrong."""
    for name in components:
        if name not in (*COMPONENTS, "package"):
            raise UsageError(f"--component: {name!r} is not context, task, harness, verifier or package")
    found, paths = _sides(store, [w for w in words if w])
    narrow = Narrow(package, tuple(components), tuple(p.rstrip("/") or p for p, _ in paths))
    comparison = _folder(store, found, narrow) if isinstance(found, Path) else _compared(store, *found, narrow)
    for path, error in paths:
        if not _known(comparison, path.rstrip("/")):
            raise error
    return comparison


#: a word that narrows, and what to raise where nothing is called so
_Paths = list[tuple[str, NotFound]]


def _sides(store: Store, words: list[str]) -> tuple[tuple[Side, Side] | Path, _Paths]:
    if not words:
        return _newest(store), []
    if words[0].startswith((".", "/")) and _is_folder(words[0]):
        return Path(words[0]), _paths(words[1:])
    left, dots, right = split_dots(words[0])
    if dots and (left or right):
        return _range(store, words[0]), _paths(words[1:])
    first = _side(store, words[0])
    if isinstance(first, NotFound):
        if _is_folder(words[0]):
            return Path(words[0]), _paths(words[1:])
        return _newest(store), [(words[0], first), *_paths(words[1:])]
    if len(words) > 1:
        second = _side(store, words[1])
        if not isinstance(second, NotFound):
            return (first, second), _paths(words[2:])
        if _is_folder(words[1]):
            raise UsageError("a folder is compared with HEAD alone", hint=f"rover diff {words[1]}")
        return (first, _against(store, first)), [(words[1], second), *_paths(words[2:])]
    return (first, _against(store, first)), []


def _paths(words: list[str]) -> _Paths:
    hint = "nothing of that name differs; a path begins with a package or a component"
    return [(word, NotFound("path", word, hint=hint)) for word in words]


def _newest(store: Store) -> tuple[Side, Side]:
    """HEAD against its parent; the first commit against nothing."""
    return _parent(store, store.resolve("HEAD")), _commit(store, "HEAD", store.resolve("HEAD"))


def _parent(store: Store, commit: str) -> Side:
    parents = store.revisions.load(commit).parents
    return _commit(store, "HEAD~1", parents[0]) if parents else Side("nothing", "commit", EMPTY_TREE, EMPTY_TREE)


def _commit(store: Store, word: str, commit: str) -> Side:
    return Side(word, "commit", commit, store.revisions.load(commit).tree)


def _range(store: Store, word: str) -> tuple[Side, Side]:
    left, dots, right = split_dots(word)
    a, b = (store.resolve(side or "HEAD") for side in (left, right))
    if dots == "...":
        from rover_store.history.ancestry import merge_bases

        bases = merge_bases(store, a, b)
        if not bases:
            raise UsageError(f"{left or 'HEAD'} and {right or 'HEAD'} share no commit", hint="A..B compares them")
        a = bases[0]
    return _commit(store, left or "HEAD", a), _commit(store, right or "HEAD", b)


def _side(store: Store, word: str) -> Side | NotFound:
    """What a word names; the error, to be raised later, where it names no object."""
    if word.startswith(("./", "../", "/")):
        return NotFound("revision", word)
    left = False
    try:
        found = store.find(word)
    except NotFound as error:
        try:
            found, left = store.evidence.find(word), True
        except NotFound:
            return error
    path = "" if word.startswith(":/") else word.partition(":")[2].strip("/")
    if found.kind == "commit" and not path:
        return _commit(store, word, found.id)
    if found.kind not in ("tree", "blob"):
        raise UsageError(f"{word}: a {found.kind} cannot be compared")
    return Side(word, found.kind, found.id, found.id, path, left)


def _against(store: Store, side: Side) -> Side:
    """The other side where one word stands alone: HEAD, or the same path in HEAD."""
    if side.kind == "commit":
        return _commit(store, "HEAD", store.resolve("HEAD"))
    if not side.path or side.left:
        raise UsageError(f"{side.word}: a {side.kind} needs another one to compare with")
    other = _side(store, f"HEAD:{side.path}")
    if isinstance(other, NotFound):
        raise other
    return other


def _compared(store: Store, old: Side, new: Side, narrow: Narrow) -> Comparison:
    if old.kind != new.kind and {old.kind, new.kind} & {"blob"}:
        raise UsageError(f"{old.word} is a {old.kind}, {new.word} a {new.kind}: they cannot be compared")
    left = old.left or new.left
    objects = store.evidence.objects if left else store.objects
    comparison = Comparison(objects, old, new, narrow)
    # the place in the package tells which record a file holds
    above = new.path if left else new.path.partition("/")[2]
    if old.kind == "blob":
        path = above or new.path or "file"
        same = old.id == new.id
        one = () if same else (FileDiff(path, "changed", old.id, new.id),)
        return Comparison(objects, old, new, narrow, (), one)
    # what an agent made is a folder, whatever it is called
    shapes = ["folder" if left and side.kind == "tree" else _shape(objects, side.tree) for side in (old, new)]
    if "revision" in shapes and len(set(shapes)) > 1 and EMPTY_TREE not in (old.tree, new.tree):
        raise UsageError(f"{old.word} is a {shapes[0]}, {new.word} a {shapes[1]}: they cannot be compared")
    if "package" in shapes and len(set(shapes)) == 1:
        names = [side.path.rsplit("/", 1)[-1] or side.word for side in (old, new)]
        name = names[1] if names[0] == names[1] else f"{names[0]} -> {names[1]}"
        package = trees.one_package(objects, name, old.tree, new.tree)
        return Comparison(objects, old, new, narrow, (package,) if old.tree != new.tree else ())
    if "folder" in shapes or "package" in shapes:
        files = trees.files_diff(objects, old.tree, new.tree)
        files = tuple(f._replace(path=f"{above}/{f.path}") for f in files) if above else files
        return Comparison(objects, old, new, narrow, (), files)
    return comparison


def _shape(objects: Objects, tree: str) -> str:
    """What a tree is: of a revision, of a package, or any other folder."""
    level = objects.list_tree(tree)
    if not level or {"packages", "resources"} & level.keys():
        return "revision"
    return "package" if "package.json" in level or {*COMPONENTS} & level.keys() else "folder"


def _folder(store: Store, folder: Path, narrow: Narrow) -> Comparison:
    from rover_store.diffs.folder import folder_diff

    found = folder_diff(store, folder)
    head = store.resolve("HEAD") if store.refs.head_id() else EMPTY_TREE
    old = Side("HEAD", "commit", found.old or EMPTY_TREE, found.old or EMPTY_TREE)
    old = Side("HEAD", "commit", head, old.tree)
    new = Side(str(folder), "folder", found.new, found.new)
    known = (found.package,) if found.package is not None and fnmatchcase(found.name, narrow.package) else ()
    return Comparison(found.objects, old, new, narrow, known, (), found.skipped)


def _is_folder(word: str) -> bool:
    return os.path.isfile(os.path.join(word, "package.json"))


def _known(comparison: Comparison, path: str) -> bool:
    """Whether a path is there: a component, a glob, what a side holds, or what differs."""
    first, _, rest = path.strip("/").partition("/")
    if set(path) & set("*?[") or (first in COMPONENTS and not rest):
        return True
    full = path.strip("/") if first == "resources" else package_path(first) + (f"/{rest}" if rest else "")
    roots = [s.tree for s in (comparison.old, comparison.new) if s.kind == "commit"]
    if first and any(comparison.objects.subtree(root, full) for root in roots):
        return True
    alone = replace(comparison, narrow=Narrow(paths=(path,)))
    return any(True for part in (alone.packages(), alone.resources(), alone.others()) for _ in part)
