"""Checking what the packages of a revision say of each other: names, places, records, edges, pins, resources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rover_store import graph, layout, trees
from rover_store.care.inventory import Inventory
from rover_store.care.problems import Problem
from rover_store.errors import PackageError, StoreError
from rover_store.graph import Dependency
from rover_store.index import build as index_build
from rover_store.index.rows import edges_of
from rover_store.names import COMPONENTS, RESOURCE_KINDS, check_name, package_path
from rover_store.objects import Objects
from rover_store.packs import COMMIT, TREE
from rover_store.trees import EXECUTABLE, FILE, FOLDER, Level

if TYPE_CHECKING:
    from rover_store.records import Record
    from rover_store.store import Store

_CHECKOUT = "rover checkout, mend the folder, rover commit"
_FRESH = "rover commit DIR --fresh, if the components fit as they are"
#: folders in which any file may lie (cases/ holds a record too)
_ANYTHING = ("context/files/", "verifier/checks/", "verifier/reference/files/", "demonstrations/")
_HOSTILE = re.compile(r"[\x00-\x1f\x7f\\]|[ .]$|[\udc80-\udcff]")


def check_packages(store: Store, inventory: Inventory, *, quick: bool, broken: bool) -> Iterator[Problem]:
    """Problems of the packages at the head of every branch; equal heads and equal packages are judged once.

    On `broken` ground it is not told again that something cannot be read.
    """
    seen: set[tuple[str, str]] = set()
    judge = _Judge(store.objects, inventory, quick)
    for branch, head in sorted(store.branches().items()):
        number = inventory.of(head)
        if number < 0 or inventory.kinds[number] != COMMIT:
            continue  # told with the refs
        try:
            root = store.revisions.load(head).tree
            resources = layout.resource_trees(store.objects, root)
            for path, name, tree in layout.package_places(store.objects, root):
                if (path, tree) not in seen:
                    seen.add((path, tree))
                    yield from judge.package(branch, path, name, tree, resources)
            for name, tree in resources.items():
                if (name, tree) not in seen:
                    seen.add((name, tree))
                    yield from judge.resource(f"{branch}:resources/{name}", name, tree)
            yield from _top(store.objects, branch, root)
        except StoreError as error:
            if not broken:
                yield Problem(branch, f"cannot be read to its end: {error.message}", kind="unreadable")


class _Judge:
    """Judges packages one by one; of records that were sound once, only the number is kept."""

    def __init__(self, objects: Objects, inventory: Inventory, quick: bool) -> None:
        self._objects = objects
        self._inventory = inventory
        self._quick = quick
        self._sound: set[tuple[int, str]] = set()

    def package(self, branch: str, path: str, name: str, tree: str, resources: dict[str, str]) -> Iterator[Problem]:
        where = f"{branch}:{name}"
        try:
            check_name(name)
        except PackageError as error:
            yield Problem(where, error.reason, kind="badPackageName", remedy="rename the folder, in a clone")
        if path != package_path(name):
            what = "lies in the wrong folder of the tree"
            yield Problem(where, what, kind="wrongPlace", remedy=f"move it to {package_path(name)}, in a clone")
        record = index_build.package_json(self._objects, tree)
        if record.get("name") != name:
            what = f"package.json: name: says {record.get('name')!r}"
            yield Problem(where, what, kind="wrongName", remedy=_CHECKOUT)
        level = self._objects.list_tree(tree)
        present = {f"{name}/{c}": level[c].id for c in COMPONENTS if c in level and level[c].is_folder}
        edges = edges_of(name, record)
        for edge in edges:
            yield from self._edge(f"{branch}:{edge.source}", edge, present, resources)
        try:
            graph.order({e.source for e in edges} | {e.target for e in edges}, edges)
        except StoreError as error:
            yield Problem(branch, error.message, kind="cycle", remedy=_CHECKOUT)
        if not self._quick:
            yield from self._records(where, level)

    def resource(self, where: str, name: str, tree: str) -> Iterator[Problem]:
        short = name.partition("/")[2]
        try:
            check_name(short, "resource.json")
        except PackageError as error:
            yield Problem(where, error.reason, kind="badPackageName", remedy="rename the folder, in a clone")
        if "resource.json" not in self._objects.list_tree(tree):
            yield Problem(where, "holds no resource.json", kind="missingFile", remedy="rover build, or a clone")

    # --- edges -------------------------------------------------------------------------------------------
    def _edge(
        self, where: str, edge: Dependency, present: dict[str, str], resources: dict[str, str]
    ) -> Iterator[Problem]:
        say = "package.json: edges: "
        if edge.source not in present:
            yield Problem(where, f"{say}{edge.source} does not exist", kind="danglingEdge", remedy=_CHECKOUT)
        there = present.get(edge.target) or resources.get(edge.target.removeprefix("resources/"))
        if there is None:
            what = f"{say}depends on {edge.target}, which does not exist"
            yield Problem(where, what, kind="danglingEdge", remedy=_CHECKOUT)
        if there == edge.version:
            return
        number = self._inventory.of(edge.version)
        pin = f"{say}{edge.target} at {edge.version[:12]}"
        if number < 0:
            yield Problem(where, f"{pin}, which does not exist", kind="danglingPin", remedy=_FRESH)
        elif self._inventory.kinds[number] != TREE or not self._is_version(edge):
            yield Problem(where, f"{pin}, which never was a version of it", kind="impossiblePin", remedy=_FRESH)

    def _is_version(self, edge: Dependency) -> bool:
        """Whether the pinned tree is of the kind that the target is."""
        level = self._objects.list_tree(edge.version)
        is_resource = edge.target.startswith("resources/")
        return ("resource.json" if is_resource else f"{edge.target.rpartition('/')[2]}.json") in level

    # --- records -----------------------------------------------------------------------------------------
    def _records(self, where: str, level: Level) -> Iterator[Problem]:
        from rover_store.files.package_records import FREE, OPTIONAL, REQUIRED

        files: dict[str, str] = {}
        for problem in self._walk(where, level, "", files):
            yield problem
            if problem.kind == "tooManyFiles":
                return  # what each of them is says no more
        for path in REQUIRED:
            if path not in files:
                yield Problem(where, f"{path}: missing", kind="missingFile", remedy=_CHECKOUT)
        for path in files:
            if path not in REQUIRED and path not in OPTIONAL and not path.startswith(FREE):
                yield Problem(where, f"{path}: has no place in a package", "warning", "strayFile", _CHECKOUT)
        for path, kind in {**REQUIRED, **OPTIONAL}.items():
            if kind is not None and path in files:
                yield from self._record(where, path, files[path], kind)

    def _record(self, where: str, path: str, blob: str, kind: type[Record]) -> Iterator[Problem]:
        key = (self._inventory.of(blob), kind.kind)
        if key in self._sound:
            return
        try:
            record = kind.load(self._objects.read(blob), path)
        except PackageError as error:
            yield Problem(where, error.message, kind="badRecord", remedy=_CHECKOUT)
            return
        except StoreError:  # told where it lies
            return
        self._sound.add(key)
        for ref in getattr(record, "resources", ()):
            number = self._inventory.of(ref.tree)
            if number < 0 or self._inventory.kinds[number] != TREE:
                what = f"{path}: resources: {ref.kind}/{ref.name} at {ref.tree[:12]}, which does not exist"
                yield Problem(where, what, kind="danglingResource", remedy=_CHECKOUT)

    def _walk(self, where: str, level: Level, prefix: str, files: dict[str, str]) -> Iterator[Problem]:
        """Files of a package; names and modes that some machine cannot take."""
        waiting = [(prefix, level)]  # no recursion: another git may have pushed a tree of any depth
        while waiting:
            prefix, level = waiting.pop()
            if len(files) + len(waiting) > trees.MOST_FILES:
                what = f"stands for more than {trees.MOST_FILES} files"
                yield Problem(where, what, kind="tooManyFiles", remedy="remove it, in a clone")
                return
            folded: dict[str, str] = {}
            for name, item in level.items():
                path = prefix + name
                yield from self._name(where, path, name, folded)
                if item.mode == FOLDER:
                    if f"{path}/" in _ANYTHING and not self._inventory.hostile:
                        continue  # any file may lie there, and every tree of the store was found harmless
                    waiting.append((f"{path}/", self._objects.list_tree(item.id)))
                elif item.mode in (FILE, EXECUTABLE):
                    files[path] = item.id
                else:
                    kind = "link" if item.mode == 0o120000 else "submodule"
                    what = f"{path}: is a {kind}, which no package can hold"
                    yield Problem(where, what, "error", "hostileMode", _CHECKOUT)

    def _name(self, where: str, path: str, name: str, folded: dict[str, str]) -> Iterator[Problem]:
        if _HOSTILE.search(name) or len(name.encode("utf-8", "surrogateescape")) > 255:
            what = f"{path!a}: not every file system can hold it"
            yield Problem(where, what, "warning", "hostileName", _CHECKOUT)
        if folded.setdefault(name.casefold(), name) != name:
            what = f"{path}: differs from {folded[name.casefold()]} in case alone"
            yield Problem(where, what, "warning", "caseCollision", _CHECKOUT)


def _top(objects: Objects, branch: str, root: str) -> Iterator[Problem]:
    """What lies beside packages and resources, or between them and the fan-out."""
    remedy = "move it away, in a clone"
    level = objects.list_tree(root)
    for name, item in level.items():
        if name in ("packages", "resources") and not item.is_folder:
            yield Problem(branch, f"{name}: is no folder", kind="wrongPlace", remedy=remedy)
    top = level.get("resources")
    for name in objects.list_tree(top.id) if top is not None and top.is_folder else ():
        if name not in RESOURCE_KINDS:
            yield Problem(branch, f"resources/{name}: no kind of resource", "warning", "strayFile", remedy)
    top = level.get("packages")
    waiting = [(PurePosixPath("packages"), top.id, 0)] if top is not None and top.is_folder else []
    while waiting:
        path, tree, depth = waiting.pop()
        for name, item in objects.list_tree(tree).items():
            if not item.is_folder:
                yield Problem(branch, f"{path / name}: a file where packages lie", "warning", "strayFile", remedy)
            elif depth < 3:
                waiting.append((path / name, item.id, depth + 1))
