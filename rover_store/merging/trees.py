"""Three-way merge of the trees of packages and resources. Equal folders are skipped by their id, unopened.

Where only one side changed a folder or file, it is taken. Where both did, the folder is opened and the file merged
(`files`). A file that one side moved without changing it is followed. package.json comes last: its edges
depend on what the components have become (`edges`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rover_store.errors import NotFound, PackageError, StoreError
from rover_store.merging.edges import Versions, merge_admission, merge_edges
from rover_store.merging.fields import ABSENT, STORED, decode, merge_values
from rover_store.merging.files import Favour, Place, conflict, decide, field_conflicts, merge_file
from rover_store.names import COMPONENTS
from rover_store.records import Package
from rover_store.records.merge import Conflict, Side
from rover_store.trees import EMPTY_TREE, EXECUTABLE, FILE, FOLDER, Level, TreeItem

if TYPE_CHECKING:
    from rover_store.store import Store
    from rover_store.write import Transaction

_PLAIN = (FILE, EXECUTABLE)
#: a file that is merged by content, each side read whole, is at most so large
_LARGEST = 64 << 20
#: folders within folders that are merged by content: deeper ones are a conflict as a whole
_DEEPEST = 190


class Reads(Protocol):
    """Where trees and blobs are read: a repository's objects, or a transaction."""

    def list_tree(self, tree: str, /) -> Level: ...

    def read(self, blob: str, /) -> bytes: ...


class MergedTree(NamedTuple):
    """The merged tree. Where something is in conflict it holds ours, or what was favoured."""

    tree: str
    conflicts: tuple[Conflict, ...]


def merge_trees(
    store: Store | Transaction, base: str | None, ours: str, theirs: str, *, name: str = "", favour: Favour = None
) -> MergedTree:
    """Merge three versions of one package and store the result. `base` is None where both sides added it."""
    from rover_store.write import Transaction

    if isinstance(store, Transaction):
        return TreeMerge(store, favour).package(name, base, ours, theirs)
    with store.lock:
        tx = Transaction(store, "")
        try:
            done = TreeMerge(tx, favour).package(name, base, ours, theirs)
            tx.write_objects()
        finally:
            tx.abort()
    return done


class TreeMerge:
    """Merges within one transaction."""

    def __init__(self, tx: Transaction, favour: Favour = None) -> None:
        self._tx = tx
        self._favour = favour

    def package(self, name: str, base: str | None, ours: str, theirs: str) -> MergedTree:
        """Three versions of a package."""
        whole = self._only_one(base, ours, theirs)
        if whole is not None:
            return MergedTree(whole, ())
        walk = Walk(self._tx, self._favour, Place(package=name))
        walk.folder(base, ours, theirs, "", skip=("package.json",))
        tree = walk.finish(base, ours, theirs)
        tree = self._package_json(name, (base, ours, theirs), tree, walk.conflicts)
        return MergedTree(tree, tuple(walk.conflicts))

    def folder(self, place: Place, base: str | None, ours: str, theirs: str) -> MergedTree:
        """Three versions of a resource, or of any folder."""
        whole = self._only_one(base, ours, theirs)
        if whole is not None:
            return MergedTree(whole, ())
        walk = Walk(self._tx, self._favour, place)
        walk.folder(base, ours, theirs, "")
        return MergedTree(walk.finish(base, ours, theirs), tuple(walk.conflicts))

    def _only_one(self, base: str | None, ours: str, theirs: str) -> str | None:
        return ours if theirs in (base, ours) else theirs if ours == base else None

    # --- package.json ------------------------------------------------------------------------------------
    def repin(
        self, sides: tuple[str | None, str, str], merged: str, vouched: frozenset[str] = frozenset()
    ) -> str:
        """The merged package with its edges made again, once a person has settled what was in conflict."""
        levels = [self._tx.list_tree(tree) if tree else {} for tree in (*sides, merged)]
        items = [level.get("package.json") for level in levels]
        values = [decode(self._tx.read(item.id)) if item is not None else {} for item in items]
        o, t, present = (_components(level) for level in levels[1:])
        edges = [v.get("edges", []) for v in values]
        bound = bound_resources(self._tx, merged)
        pins = merge_edges(edges[0], edges[1], edges[2], Versions(o, t, present), bound, vouched)
        held = [v.get("admission") for v in values]
        admission = merge_admission(held[0], held[1], held[2], present)
        value = {**values[3], "edges": pins, **({"admission": admission} if admission is not None else {})}
        record = Package.load(STORED.encode(value), "package.json")
        return self._tx.edit_tree(merged, {"package.json": record.dump()})

    def _package_json(
        self, name: str, sides: tuple[str | None, str, str], merged: str, conflicts: list[Conflict]
    ) -> str:
        levels = [self._tx.list_tree(tree) if tree else {} for tree in sides]
        items = [level.get("package.json") for level in levels]
        datas = [self._tx.read(item.id) if item is not None else None for item in items]
        if datas[1] is None or datas[2] is None:
            walk = Walk(self._tx, self._favour, Place(package=name))
            walk.entry("package.json", *items)
            edits: Mapping[str, TreeItem | None] = walk.items()
            conflicts += walk.conflicts
            return self._tx.edit_tree(merged, edits)
        try:
            Package.load(datas[1], "package.json")
            Package.load(datas[2], "package.json")
            values = [{} if data is None else decode(data) for data in datas]
        except (PackageError, ValueError):
            done = merge_file(Place(name, "", "package.json"), datas[0], datas[1], datas[2], self._favour)
            conflicts += done.conflicts
            return self._tx.edit_tree(merged, {"package.json": done.data})
        o, t = (_components(level) for level in levels[1:])
        versions = Versions(o, t, _components(self._tx.list_tree(merged)))
        edges = [v.pop("edges", []) for v in values]
        held = [v.pop("admission", None) for v in values]
        value, found = merge_values(values[0] if datas[0] else ABSENT, values[1], values[2], decide(self._favour))
        if self._favour is None:
            conflicts += field_conflicts(Place(name, "", "package.json"), found)
        value["edges"] = merge_edges(edges[0], edges[1], edges[2], versions, bound_resources(self._tx, merged))
        admission = merge_admission(held[0], held[1], held[2], versions.merged)
        if admission is not None:
            value["admission"] = admission
        try:
            data = Package.load(STORED.encode(value), "package.json").dump()
        except PackageError as error:
            reason = f"merged field by field it is no valid record: {error.message}"
            whole = tuple(map(_side, items))
            conflicts.append(conflict(Place(name, "", "package.json"), "file", reason, (whole[0], whole[1], whole[2])))
            data = datas[1]
        return self._tx.edit_tree(merged, {"package.json": data})


class Walk:
    """What one pair of folders needs: edits of ours, and conflicts."""

    def __init__(self, tx: Transaction, favour: Favour, place: Place) -> None:
        self._tx = tx
        self._favour = favour
        self._place = place
        self.edits: dict[str, TreeItem | None] = {}
        self.conflicts: list[Conflict] = []
        self._gone: list[tuple[str, TreeItem, TreeItem | None, TreeItem | None]] = []

    def folder(
        self, base: str | None, ours: str | None, theirs: str | None, prefix: str, skip: tuple[str, ...] = ()
    ) -> None:
        """Three versions of a folder."""
        levels: list[Level] = [self._tx.list_tree(tree) if tree else {} for tree in (base, ours, theirs)]
        for name in sorted(levels[0].keys() | levels[1].keys() | levels[2].keys()):
            if name not in skip:
                b, o, t = (level.get(name) for level in levels)
                self.entry(f"{prefix}{name}", b, o, t)

    def entry(self, path: str, base: TreeItem | None, ours: TreeItem | None, theirs: TreeItem | None) -> None:
        """Three versions of an entry."""
        if theirs in (base, ours):
            return
        if ours == base:
            self._set(path, theirs)
            return
        if all(item is None or item.is_folder for item in (ours, theirs)) and (ours or theirs):
            if path.count("/") >= _DEEPEST:
                self._clash(path, base, ours, theirs, f"nested deeper than {_DEEPEST} folders: not merged by content")
                return
            b = base.id if base is not None and base.is_folder else None
            self.folder(b, ours.id if ours else None, theirs.id if theirs else None, f"{path}/")
            return
        if ours is None or theirs is None:
            if base is not None and not base.is_folder:
                self._gone.append((path, base, ours, theirs))
            else:
                self._clash(path, base, ours, theirs, "a folder on one side, a file on the other")
            return
        if ours.is_folder or theirs.is_folder:
            self._clash(path, base, ours, theirs, "a folder on one side, a file on the other")
            return
        self._file(path, base if base is not None and not base.is_folder else None, ours, theirs)

    def finish(self, base: str | None, ours: str, theirs: str) -> str:
        """Follow what was moved, and write the tree."""
        if self._gone:
            self._follow([flat(self._tx, tree) if tree else {} for tree in (base, ours, theirs)])
        edits: Mapping[str, TreeItem | None] = self.edits
        return self._tx.edit_tree(ours, edits) if edits else ours

    def items(self) -> dict[str, TreeItem | None]:
        """The edits of a walk that goes into a larger one, where nothing that was moved is followed."""
        self._follow([{}, {}, {}])
        return self.edits

    # --- files -------------------------------------------------------------------------------------------
    def _file(self, path: str, base: TreeItem | None, ours: TreeItem, theirs: TreeItem) -> None:
        kinds = {item.mode for item in (base, ours, theirs) if item is not None}
        before = base.mode if base is not None else FILE
        mode = theirs.mode if ours.mode == before else ours.mode
        if not kinds.issubset(_PLAIN) or (theirs.mode not in (before, ours.mode) and ours.mode != before):
            self._clash(path, base, ours, theirs, "both sides changed it, and it is no plain file")
            return
        known = base.id if base is not None else None
        if theirs.id in (known, ours.id):
            self._set(path, TreeItem(mode, ours.id))
        elif ours.id == known:
            self._set(path, TreeItem(mode, theirs.id))
        else:
            self._content(path, base, ours, theirs, mode)

    def _content(self, path: str, base: TreeItem | None, ours: TreeItem, theirs: TreeItem, mode: int) -> None:
        datas = [self._tx.read(item.id) if item is not None else None for item in (base, ours, theirs)]
        if max(len(d or b"") for d in datas) > _LARGEST:
            self._clash(path, base, ours, theirs, f"larger than {_LARGEST >> 20} MiB: not merged by content")
            return
        assert datas[1] is not None
        assert datas[2] is not None
        done = merge_file(self._place.below(path), datas[0], datas[1], datas[2], self._favour)
        sides = (_side(base), _side(ours), _side(theirs))
        self.conflicts += [
            c if c.kind == "field" else c.model_copy(update=dict(zip(("base", "ours", "theirs"), sides, strict=True)))
            for c in done.conflicts
        ]
        self._set(path, TreeItem(mode, self._tx.blob(done.data)))

    def _clash(
        self, path: str, base: TreeItem | None, ours: TreeItem | None, theirs: TreeItem | None, reason: str
    ) -> None:
        if self._favour is None:
            sides = (_side(base), _side(ours), _side(theirs))
            self.conflicts.append(conflict(self._place.below(path), "file", reason, sides))
        else:
            self._set(path, {"base": base, "ours": ours, "theirs": theirs}[self._favour])

    def _follow(self, flat: list[dict[str, TreeItem]]) -> None:
        """Files that one side deleted and the other changed: if the first moved them, the change follows."""
        for path, before, mine, yours in self._gone:
            mover = flat[1] if mine is None else flat[2]
            others = [f for f in flat if f is not mover]
            moved = [p for p, item in mover.items() if item.id == before.id and not any(p in f for f in others)]
            changed = yours if mine is None else mine
            if len(moved) == 1 and changed is not None:
                self._set(path, None)
                self._set(moved[0], TreeItem(before.mode, changed.id))
                continue
            who = ("us", "them") if mine is None else ("them", "us")
            self._clash(path, before, mine, yours, f"deleted by {who[0]}, changed by {who[1]}")

    def _set(self, path: str, item: TreeItem | None) -> None:
        self.edits[path] = item


def bound_resources(tx: Reads, tree: str) -> dict[str, str]:
    """`resources/KIND/NAME` -> tree, as the package's context.json lists them."""
    context = tx.list_tree(tree).get("context")
    item = tx.list_tree(context.id).get("context.json") if context is not None and context.is_folder else None
    try:
        value = decode(tx.read(item.id)) if item is not None else {}
        rows = value.get("resources", [])
        return {f"resources/{r.get('kind', 'files')}/{r['name']}": str(r["tree"]) for r in rows}
    except (ValueError, KeyError, TypeError, AttributeError, NotFound, StoreError):
        return {}


def _components(level: Mapping[str, TreeItem]) -> dict[str, str]:
    return {c: level[c].id for c in COMPONENTS if c in level and level[c].is_folder}


def _side(item: TreeItem | None) -> Side:
    return Side() if item is None else Side(id=item.id, mode=f"{item.mode:06o}")


def flat(tx: Transaction, tree: str) -> dict[str, TreeItem]:
    """Path -> entry of every file below a tree."""
    out: dict[str, TreeItem] = {}
    waiting = [("", tree)]  # no recursion: another git may have pushed a tree of any depth
    while waiting:
        prefix, here = waiting.pop()
        for name, item in (tx.list_tree(here) if here != EMPTY_TREE else {}).items():
            if item.mode == FOLDER:
                waiting.append((f"{prefix}{name}/", item.id))
            else:
                out[prefix + name] = item
    return out
