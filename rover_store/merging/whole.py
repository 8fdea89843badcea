"""Three-way merge of whole revisions: packages, resources, and the files beside them. Writes trees, moves nothing.

Only what both sides changed is opened. A package that one side renamed (three of its four components stay as they
were) takes the other side's changes along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from rover_store import layout
from rover_store.layout import TreeChange
from rover_store.merging.files import Favour, Place, conflict
from rover_store.merging.trees import TreeMerge, Walk
from rover_store.names import package_path
from rover_store.records.merge import Conflict, Side
from rover_store.trees import FOLDER, TreeItem

if TYPE_CHECKING:
    from rover_store.store import Store
    from rover_store.write import Transaction

#: components in common that make a package that went and one that came the same
_SAME = 3


class Outcome(NamedTuple):
    """The tree of the merge; packages taken from theirs, merged of both; resources alike; conflicts in order."""

    tree: str
    taken: tuple[str, ...]
    merged: tuple[str, ...]
    conflicts: tuple[Conflict, ...]


def merge_revisions(
    tx: Transaction, base: str | None, ours: str, theirs: str, favour: Favour = None
) -> Outcome:
    """Merge the trees of two revisions over the tree of their base (None: unrelated histories)."""
    return _Revisions(tx, base, ours, theirs, favour).run()


def base_tree(store: Store, tx: Transaction, bases: tuple[str, ...], depth: int = 0) -> str | None:
    """Tree of the merge base. Of several (criss-cross histories) the merge, over their own bases, is the base.

    Where they are in conflict with each other it holds what their own base had.
    """
    from rover_store.history.ancestry import merge_bases

    if not bases:
        return None
    tree = tx.load(bases[0]).tree
    for other in bases[1:]:
        inner = tuple(merge_bases(store, bases[0], other)) if depth < 8 else ()
        below = base_tree(store, tx, inner, depth + 1)
        tree = merge_revisions(tx, below, tree, tx.load(other).tree, "base").tree
    return tree


class _Revisions:
    def __init__(self, tx: Transaction, base: str | None, ours: str, theirs: str, favour: Favour) -> None:
        self._tx = tx
        self._roots = (base, ours, theirs)
        self._favour = favour
        self._trees = TreeMerge(tx, favour)
        self._edits: dict[str, TreeItem | None] = {}
        self._conflicts: list[Conflict] = []
        self._taken: list[str] = []
        self._merged: list[str] = []

    def run(self) -> Outcome:
        base, ours, theirs = self._roots
        mine, yours = ({c.name: c for c in layout.changed_packages(self._tx, base, side)} for side in (ours, theirs))
        gone = self._renamed(mine, yours)
        self._trees_of(mine, yours, gone, self._package, package_path)
        mine, yours = ({c.name: c for c in layout.changed_resources(self._tx, base, side)} for side in (ours, theirs))
        self._trees_of(mine, yours, set(), self._resource, lambda name: f"resources/{name}")
        self._beside()
        edits: Mapping[str, TreeItem | None] = self._edits
        tree = self._tx.edit_tree(ours, edits) if edits else ours
        numbered = tuple(c.model_copy(update={"id": f"c{i}"}) for i, c in enumerate(self._conflicts, 1))
        return Outcome(tree, tuple(sorted(self._taken)), tuple(sorted(self._merged)), numbered)

    def _trees_of(
        self, mine: Mapping[str, TreeChange], yours: Mapping[str, TreeChange], skip: set[str],
        both: Callable[[str, str | None, str | None, str | None], None], path: Callable[[str], str],
    ) -> None:  # fmt: skip
        for name, change in sorted(yours.items()):
            own = mine.get(name)
            if name in skip or (own is not None and own.new == change.new):
                continue
            if own is None:
                self._edits[path(name)] = TreeItem(FOLDER, change.new) if change.new else None
                self._taken.append(name if both == self._package else f"resources/{name}")
            else:
                both(name, change.old, own.new, change.new)

    def _package(self, name: str, base: str | None, ours: str | None, theirs: str | None) -> None:
        if ours is None or theirs is None:
            self._deleted(Place(package=name), "package", package_path(name), (base, ours, theirs))
            return
        done = self._trees.package(name, base, ours, theirs)
        self._edits[package_path(name)] = TreeItem(FOLDER, done.tree)
        self._conflicts += done.conflicts
        self._merged.append(name)

    def _resource(self, name: str, base: str | None, ours: str | None, theirs: str | None) -> None:
        place = Place(resource=name)
        if ours is None or theirs is None:
            self._deleted(place, "resource", f"resources/{name}", (base, ours, theirs))
            return
        done = self._trees.folder(place, base, ours, theirs)
        self._edits[f"resources/{name}"] = TreeItem(FOLDER, done.tree)
        self._conflicts += done.conflicts
        self._merged.append(f"resources/{name}")

    def _deleted(self, place: Place, kind: str, path: str, trees: tuple[str | None, str | None, str | None]) -> None:
        if self._favour is not None:
            tree = trees[("base", "ours", "theirs").index(self._favour)]
            self._edits[path] = TreeItem(FOLDER, tree) if tree else None
            return
        who = ("us", "them") if trees[1] is None else ("them", "us")
        base, ours, theirs = (Side(id=tree) for tree in trees)
        reason = f"deleted by {who[0]}, changed by {who[1]}"
        found = "package" if kind == "package" else "resource"
        self._conflicts.append(conflict(place, found, reason, (base, ours, theirs)))  # type: ignore[arg-type]

    # --- renamed packages --------------------------------------------------------------------------------
    def _renamed(self, mine: Mapping[str, TreeChange], yours: Mapping[str, TreeChange]) -> set[str]:
        """Packages that one side renamed and the other changed, merged under the new name. Returns what is done."""
        done: set[str] = set()
        for name in sorted(mine.keys() & yours.keys()):
            own, other = mine[name], yours[name]
            if own.old is None or (own.new is None) == (other.new is None):
                continue
            mover = mine if own.new is None else yours
            fresh = [c for c in mover.values() if c.old is None and c.new and self._alike(own.old, c.new)]
            if len(fresh) != 1 or (fresh[0].name in mine and fresh[0].name in yours):
                continue
            new = fresh[0]
            sides = (new.new, other.new) if own.new is None else (own.new, new.new)
            assert sides[0] is not None
            assert sides[1] is not None
            result = self._trees.package(new.name, own.old, sides[0], sides[1])
            self._edits[package_path(name)] = None
            self._edits[package_path(new.name)] = TreeItem(FOLDER, result.tree)
            self._conflicts += result.conflicts
            self._merged.append(new.name)
            done |= {name, new.name}
        return done

    def _alike(self, old: str, new: str) -> bool:
        a, b = (layout.entry(self._tx, "", tree).components for tree in (old, new))
        return sum(1 for c in a if b.get(c) == a[c]) >= _SAME

    # --- what is no package and no resource --------------------------------------------------------------
    def _beside(self) -> None:
        walk = Walk(self._tx, self._favour, Place())
        base, ours, theirs = self._roots
        walk.folder(base, ours, theirs, "", skip=("packages", "resources"))
        self._strays(walk, "", self._roots, 0)
        self._edits.update(walk.items())
        self._conflicts += walk.conflicts

    def _strays(self, walk: Walk, prefix: str, trees: tuple[str | None, ...], depth: int) -> None:
        """Files that another git put between the folders of packages or resources."""
        levels = [self._tx.list_tree(tree) if tree else {} for tree in trees]
        for name in sorted(levels[0].keys() | levels[1].keys() | levels[2].keys()):
            b, o, t = (level.get(name) for level in levels)
            path = f"{prefix}{name}"
            if t in (b, o) or (not depth and name not in ("packages", "resources")):
                continue
            if not any(item is not None and item.is_folder for item in (b, o, t)):
                walk.entry(path, b, o, t)
            elif depth < (4 if path.startswith("packages") else 2):
                folders = tuple(i.id if i is not None and i.is_folder else None for i in (b, o, t))
                self._strays(walk, f"{path}/", folders, depth + 1)
