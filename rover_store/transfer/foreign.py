"""What another store offers as evidence, looked at before anything of it is taken.

Every id is made again from the content: a rollout's from its key, a tree's and a blob's from their bytes. Records must
parse, trees must be those that the record names, a verdict must be of its rollout and verifier. Size, depth and number
are bounded. The first fault is a PackageError that names source, rollout and reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from rover_store.commits import parse_commit
from rover_store.errors import PackageError, StoreError
from rover_store.evidence import rollout_id
from rover_store.names import check_name, rollout_path
from rover_store.objects import Objects
from rover_store.packs import BLOB, TREE
from rover_store.records import Record, Trajectory, Verdict
from rover_store.transfer.copying import LARGE, checked
from rover_store.trees import EMPTY_TREE, FILE, MOST_FILES, SUBMODULE, Level, TreeItem, parse_tree

if TYPE_CHECKING:
    from rover_store.evidence import Evidence

R = TypeVar("R", bound=Record)
#: says why a verdict does not hold; empty where it does, or where nobody here can know
Judge = Callable[[Trajectory, Verdict], str]

#: bytes of a record, of one folder, and of one file of a workspace
MOST_RECORD, MOST_TREE, MOST_BLOB = 256 << 20, 64 << 20, 4 << 30
_DIGIT, _ROLLOUT, _VERDICT = re.compile("[0-9a-f]"), re.compile("[0-9a-f]{64}"), re.compile(r"([0-9a-f]{40})\.json")
_PARTS = frozenset({"trajectory.json", "start", "turns", "verdicts"})


class Foreign(NamedTuple):
    """Evidence that is not ours: what a person calls it, where its objects are, and its commit."""

    label: str
    objects: Objects
    commit: str


class Offer(NamedTuple):
    """A rollout that we lack, or have otherwise."""

    path: str
    tree: str
    package: str


class Inspector:
    """Looks at the evidence of one source."""

    def __init__(
        self, evidence: Evidence, foreign: Foreign, *, globs: tuple[str, ...] = (), judge: Judge | None = None,
        deep: bool = True,
    ) -> None:  # fmt: skip
        self._ours = evidence.objects
        self._root = evidence.root()
        self._label = foreign.label
        self._theirs = foreign.objects
        self._commit = foreign.commit
        self._globs = globs
        self._judge = judge
        self._deep = deep
        self._counts: dict[str, int] = {EMPTY_TREE: 0}
        self._blobs: set[str] = set()

    def offers(self) -> list[Offer]:
        """What is not here as it is there, sorted by path. PackageError where any of it is not what it says."""
        out: list[Offer] = []
        try:
            top = parse_commit(self._commit, self._theirs.read_commit(self._commit)).tree
            for path, rollout, tree in self._folders(top):
                offer = self._rollout(path, rollout, tree)
                if offer is not None:
                    out.append(offer)
            self._read_blobs()
        except PackageError:
            raise
        except StoreError as error:
            raise self._fault("", error.message) from None
        return sorted(out)

    # --- places ------------------------------------------------------------------------------------------
    def _folders(self, top: str) -> Iterator[tuple[str, str, str]]:
        """Path, id and tree of every rollout; nothing else may lie there."""
        level = self._level(top)
        if set(level) - {"rollouts"}:
            raise self._fault("", f"{min(set(level) - {'rollouts'})!a} lies beside the rollouts")
        waiting = [("rollouts", item) for item in level.values()]
        for depth in range(5):
            for path, item in waiting:
                if not item.is_folder:
                    raise self._fault("", f"{path!a} is not a folder")
                if depth == 4:
                    yield path, path.rpartition("/")[2], item.id
            if depth < 4:
                form = _DIGIT if depth < 3 else _ROLLOUT
                waiting = [
                    (f"{path}/{name}", item) for path, above in waiting for name, item in self._level(above.id).items()
                    if self._named(form, path, name) and not self._here(f"{path}/{name}", item)
                ]  # fmt: skip

    def _here(self, path: str, item: TreeItem) -> bool:
        """Whether ours has the very same there."""
        own = self._ours.subtree(self._root, path) if self._root else None
        return own is not None and own.id == item.id

    def _named(self, form: re.Pattern[str], path: str, name: str) -> bool:
        if not form.fullmatch(name) or (form is _ROLLOUT and rollout_path(name) != f"{path}/{name}"):
            raise self._fault("", f"{f'{path}/{name}'!a} is no place of a rollout")
        return True

    # --- one rollout -------------------------------------------------------------------------------------
    def _rollout(self, path: str, rollout: str, tree: str) -> Offer | None:
        level = self._level(tree)
        if stray := sorted(set(level) - _PARTS):
            raise self._fault(rollout, f"{stray[0]!a} has no place in a rollout")
        trajectory = self._record(Trajectory, level.get("trajectory.json"), rollout, "trajectory.json")
        if self._globs and not any(fnmatchcase(trajectory.package, glob) for glob in self._globs):
            return None
        if rollout_id(trajectory) != rollout:
            raise self._fault(rollout, "its id is not the digest of its key")
        self._trees(rollout, trajectory, level)
        for name, item in self._folder(level, "verdicts", rollout).items():
            self._verdict(rollout, trajectory, name, item)
        self._count(tree, rollout)
        return Offer(path, tree, trajectory.package)

    def _trees(self, rollout: str, trajectory: Trajectory, level: Level) -> None:
        there = {f"turns/{name}": item for name, item in self._folder(level, "turns", rollout).items()}
        if "start" in level:
            there["start"] = level["start"]
        wanted: dict[str, str] = {}
        if not trajectory.pruned:
            wanted = {"start": trajectory.start, **{f"turns/{t.index:04}": t.tree for t in trajectory.turns}}
        for place, tree in wanted.items():
            item = there.pop(place, None)
            if (item.id if item else EMPTY_TREE) != tree or (item and not item.is_folder):
                raise self._fault(rollout, f"{place}: not the workspace that its record names")
        if there:
            raise self._fault(rollout, f"{min(there)!a}: its record names no such workspace")

    def _verdict(self, rollout: str, trajectory: Trajectory, name: str, item: TreeItem) -> None:
        found = _VERDICT.fullmatch(name)
        if found is None:
            raise self._fault(rollout, f"verdicts/{name!a} has no place in a rollout")
        verdict = self._record(Verdict, item, rollout, f"verdicts/{name}")
        if verdict.rollout != rollout or verdict.verifier != found[1]:
            raise self._fault(rollout, f"verdicts/{name}: it is of rollout {verdict.rollout[:12]} and verifier "
                                       f"{verdict.verifier[:12]}")  # fmt: skip
        why = self._judge(trajectory, verdict) if self._judge is not None else ""
        if why:
            raise self._fault(rollout, f"verdicts/{name}: {why}")

    def _record(self, kind: type[R], item: TreeItem | None, rollout: str, name: str) -> R:
        if item is None or item.mode != FILE:
            raise self._fault(rollout, f"{name} is missing, or no plain file")
        if (size := self._theirs.size(item.id)) > MOST_RECORD:
            raise self._fault(rollout, f"{name}: {size} bytes, more than a record may have")
        try:
            found = kind.load(self._theirs.read(item.id), name)
            if isinstance(found, Trajectory):
                check_name(found.package, name, "package")
            return found
        except PackageError as error:
            raise self._fault(rollout, error.message) from None

    def _folder(self, level: Level, name: str, rollout: str) -> Level:
        item = level.get(name)
        if item is not None and not item.is_folder:
            raise self._fault(rollout, f"{name} is not a folder")
        return self._level(item.id) if item is not None else {}

    # --- objects -----------------------------------------------------------------------------------------
    def _level(self, tree: str) -> Level:
        """Entries of a tree, whose bytes were looked at."""
        if tree == EMPTY_TREE:
            return {}
        if (size := self._theirs.size(tree)) > MOST_TREE:
            raise self._fault("", f"tree {tree[:12]}: {size} bytes, more than a folder may have")
        kind, data = self._theirs.get(tree)
        if kind != TREE:
            raise self._fault("", f"{tree[:12]} is not a tree")
        checked(tree, kind, data)
        return parse_tree(data)

    def _count(self, top: str, rollout: str) -> None:
        """Look at every tree below one, and bound what they stand for together: few trees can stand for very many."""
        stack: list[tuple[str, Level | None]] = [(top, None)]
        while stack:
            tree, level = stack.pop()
            if level is None:
                if tree in self._counts:
                    continue
                level = self._level(tree)
                stack.append((tree, level))
                stack += [(item.id, None) for item in level.values() if item.is_folder]
                if len(stack) > MOST_FILES:
                    raise self._fault(rollout, f"it stands for more than {MOST_FILES} files")
                continue
            self._counts[tree] = sum(self._counts[i.id] if i.is_folder else 1 for i in level.values()) + 1
            if self._counts[tree] > MOST_FILES:
                raise self._fault(rollout, f"it stands for more than {MOST_FILES} files")
            if any(item.mode == SUBMODULE for item in level.values()):
                raise self._fault(rollout, "a submodule lies in a workspace")
            self._blobs.update(item.id for item in level.values() if not item.is_folder)

    def _read_blobs(self) -> None:
        """Hash what is new, so that nothing is taken where anything is damaged."""
        new = [blob for blob in sorted(self._blobs) if not self._ours.exists(blob)]
        small = []
        for blob in new:
            size = self._theirs.size(blob)
            if size > MOST_BLOB:
                raise self._fault("", f"blob {blob[:12]}: {size} bytes, more than a file may have")
            if size > LARGE and self._deep:
                for _ in self._theirs.stream(blob):
                    pass
            elif size <= LARGE:
                small.append(blob)
        if self._deep:
            for name, data in self._theirs.read_many(small):
                checked(name, BLOB, data)

    def _fault(self, rollout: str, reason: str) -> PackageError:
        return PackageError(self._label, f"rollout {rollout[:12]}" if rollout else "", f"{reason}; refused")
