"""Rollouts and verdicts, keyed by content, in a repository of their own that can be pruned without loss.

    refs/rover/evidence    a chain of commits, one a `put`, each with the whole tree
    rollouts/a/3/f/ID/trajectory.json       ID: digest of the rollout's key; a3f its first three digits
    rollouts/a/3/f/ID/start, turns/0000     workspace trees at the start and after each turn
    rollouts/a/3/f/ID/verdicts/V.json       V: tree id of the verifier

A pruned rollout (`prune`) keeps its key, its end and its verdicts; running it again fills it.
Blobs that the packages hold already are not written again: store.git is an alternate. What exists is never
replaced: of two writers of one rollout the first wins, and both are told nothing of it.
Whether an infra_error is worth keeping is the caller's choice; what is kept is found again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pydantic import ValidationError

from rover_store.commits import AUTHOR, encode_commit, parse_commit
from rover_store.errors import NotFound, StoreError
from rover_store.ids import digest
from rover_store.layout import fanned
from rover_store.lock import RepositoryLock
from rover_store.names import blob_id, rollout_path
from rover_store.objects import Objects
from rover_store.packs import BLOB, COMMIT, TREE, PackWriter
from rover_store.publish import publish
from rover_store.records import Record, Trajectory, Verdict
from rover_store.refs import EVIDENCE, Refs
from rover_store.revisions.revision import Found, Revisions
from rover_store.rollup import roll_up
from rover_store.trees import (
    EMPTY_TREE,
    FILE,
    FOLDER,
    Level,
    TreeItem,
    edit_tree,
    encode_tree,
    nest,
    parse_tree,
    write_level,
)

if TYPE_CHECKING:
    from rover_store.store import Store

Manifest = Mapping[str, TreeItem]
R = TypeVar("R", bound=Record)
_BY_ID = re.compile(r"[0-9a-f]{4,40}(:|\Z)")
#: rollouts that are in memory at the same time where many are read
_MANY = 256


class Recorded(NamedTuple):
    """A rollout as it is handed in: new blobs by id, and the manifest of every workspace tree that it names."""

    trajectory: Trajectory
    blobs: Mapping[str, bytes] = {}
    trees: Mapping[str, Manifest] = {}


#: What `put` takes: `Recorded`, or a plain tuple of its fields.
Given = (
    Recorded
    | tuple[Trajectory, Mapping[str, bytes]]
    | tuple[Trajectory, Mapping[str, bytes], Mapping[str, Manifest]]
)


def rollout_id(trajectory: Trajectory) -> str:
    """Id of a rollout: the digest of its key."""
    return digest(trajectory.key.model_dump(mode="json"))


class Evidence:
    """The evidence of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.git = store.folder / "evidence.git"
        self.objects = Objects(self.git)
        self.refs = Refs(self.git)
        self._lock = RepositoryLock(self.git, self.refs)

    # --- reading -----------------------------------------------------------------------------------------
    def get_rollout(self, rollout: str) -> Trajectory | None:
        """The rollout of an id, None if there is none."""
        item = self._find(f"{rollout_path(rollout)}/trajectory.json")
        return None if item is None else Trajectory.load(self.objects.read(item.id), f"rollout {rollout[:12]}")

    def get_verdict(self, rollout: str, verifier: str) -> Verdict | None:
        """The verdict of one verifier version on one rollout, None if there is none."""
        item = self._find(f"{rollout_path(rollout)}/verdicts/{verifier}.json")
        return None if item is None else Verdict.load(self.objects.read(item.id), f"verdict {rollout[:12]}")

    def tree(self, tree: str) -> dict[str, TreeItem]:
        """Files of a workspace tree: path -> mode and blob id."""
        return self.objects.read_tree(tree)

    def read(self, blob: str) -> bytes:
        """Bytes of a blob, of the evidence or of the packages."""
        return self.objects.read(blob)

    def find(self, rev: str) -> Found:
        """What an ID or ID:PATH names: a tree or file of a rollout, or of the packages. NotFound, or Ambiguous."""
        if not _BY_ID.match(rev):
            raise NotFound("revision", rev)
        found = Revisions(self.objects, self.store.refs).find(rev)
        if found.kind not in ("tree", "blob"):
            raise NotFound("revision", rev)
        return found

    def matching(self, prefix: str) -> list[str]:
        """Ids of the rollouts that begin with some hex digits, sorted."""
        return self.store.index.matching_rollouts(prefix)

    def ids(self) -> Iterator[str]:
        """Ids of all rollouts, sorted."""
        root = self.root()
        for _, rollout, _ in fanned(self.objects, root, "rollouts") if root else ():
            yield rollout

    def iter_rollouts(
        self, package: str | None = None, *, context: str | None = None, task: str | None = None,
        harness: str | None = None, policy: str | None = None,
    ) -> Iterator[tuple[str, Trajectory]]:  # fmt: skip
        """Rollouts with their ids, sorted by id; those of a package, of component versions, of a policy."""
        wanted = {"package": package, "context": context, "task": task, "harness": harness, "policy": policy}
        for rollout in self.store.index.rollouts({k: v for k, v in wanted.items() if v is not None}):
            trajectory = self.get_rollout(rollout)
            if trajectory is not None:
                yield rollout, trajectory

    def iter_verdicts(self, rollout: str | None = None, verifier: str | None = None) -> Iterator[Verdict]:
        """Verdicts, sorted by rollout and verifier."""
        wanted = {"rollout": rollout, "verifier": verifier}
        for one, version in self.store.index.verdicts({k: v for k, v in wanted.items() if v is not None}):
            verdict = self.get_verdict(one, version)
            if verdict is not None:
                yield verdict

    def many(self, wanted: Iterable[tuple[str, str]]) -> Iterator[tuple[Trajectory, Verdict]]:
        """Rollouts with the verdict of a verifier version, by pairs of ids, in the given order; what is not there is
        left out. Read in the order in which they lie on disk, a few hundred at a time."""
        waiting, root = iter(wanted), self.root()
        while root is not None and (some := list(islice(waiting, _MANY))):
            places = [(self._at(root, r, "trajectory.json"), self._at(root, r, f"verdicts/{v}.json")) for r, v in some]
            data = dict(self.objects.read_many(blob for pair in places for blob in pair if blob is not None))
            for (rollout, _), (one, other) in zip(some, places, strict=True):
                if one is not None and other is not None:
                    yield _loaded(Trajectory, data[one], rollout), _loaded(Verdict, data[other], rollout)

    # --- writing -----------------------------------------------------------------------------------------
    def put(
        self,
        rollouts: Iterable[Given] = (),
        verdicts: Iterable[Verdict] = (),
    ) -> None:
        """Keep rollouts and verdicts: one pack, one commit. Durable when it returns.

        StoreError if a tree that a trajectory names is neither there nor among the manifests, or if a manifest
        does not have the id it claims; NotFound if a verdict is on a rollout that is not there.
        """
        recorded = [Recorded(*entry) for entry in rollouts]
        with self._lock:
            batch = _Batch(self)
            try:
                for entry in recorded:
                    batch.rollout(entry)
                for verdict in verdicts:
                    batch.verdict(verdict)
                batch.finish(self._lock, self.store.clock())
            finally:
                with suppress(OSError):
                    batch.writer.abort()
        self.store.after_write()

    # --- within ------------------------------------------------------------------------------------------
    def root(self) -> str | None:
        """Tree of everything, None before the first rollout."""
        head = self.refs.get(EVIDENCE)
        return None if head is None else parse_commit(head, self.objects.read_commit(head)).tree

    def _at(self, root: str, rollout: str, file: str) -> str | None:
        item = self.objects.subtree(root, f"{rollout_path(rollout)}/{file}")
        return None if item is None else item.id

    def _find(self, path: str) -> TreeItem | None:
        root = self.root()
        return None if root is None else self.objects.subtree(root, path)


def _loaded(kind: type[R], data: bytes, rollout: str) -> R:
    """A record, parsed the quick way; what is wrong with it is said the long way."""
    try:
        return kind.model_validate_json(data)
    except ValidationError:
        return kind.load(data, f"{kind.kind} {rollout[:12]}")


class _Batch:
    """One put under way."""

    def __init__(self, evidence: Evidence) -> None:
        self._objects = evidence.objects
        self.head = evidence.refs.get(EVIDENCE)
        self._objects.up_to_date()
        self._refs = evidence.refs
        self._root = evidence.root()
        self.writer = PackWriter(evidence.git / "objects" / "pack")
        self._edits: dict[str, TreeItem | None] = {}
        self._known: set[str] = set()

    def rollout(self, entry: Recorded) -> None:
        rollout = rollout_id(entry.trajectory)
        folder = rollout_path(rollout)
        if self._has(folder):
            stub = self._stub(folder)
            if stub is None:
                return
            if stub.pruned != entry.trajectory.end_tree:  # it ended otherwise: its old verdicts are of another state
                self._edits[f"{folder}/verdicts"] = None
        for name, data in sorted(entry.blobs.items()):
            if blob_id(data) != name:
                raise StoreError(f"a blob of rollout {rollout[:12]} does not have the id {name}")
            self._blob(data)
        for name, manifest in sorted(entry.trees.items()):
            self._check_blobs(manifest, rollout)
            if write_level(nest(manifest), self._add) != name:
                raise StoreError(f"a manifest of rollout {rollout[:12]} does not have the id {name}")
        self._edits[f"{folder}/trajectory.json"] = TreeItem(FILE, self._blob(entry.trajectory.dump()))
        self._edits[f"{folder}/start"] = self._tree(entry.trajectory.start, rollout)
        for turn in entry.trajectory.turns:
            self._edits[f"{folder}/turns/{turn.index:04}"] = self._tree(turn.tree, rollout)

    def _stub(self, folder: str) -> Trajectory | None:
        """The record of a rollout whose turns were pruned, None for one that is whole."""
        item = self._objects.subtree(self._root, f"{folder}/trajectory.json") if self._root else None
        data = self._objects.read(item.id) if item is not None else b""
        if b'"pruned"' not in data:
            return None
        stub = Trajectory.load(data, "trajectory.json")
        return stub if stub.pruned else None

    def _check_blobs(self, manifest: Manifest, rollout: str) -> None:
        for path, item in manifest.items():
            if item.id not in self._known:
                if item.id not in self.writer and not self._objects.exists(item.id):
                    raise StoreError(f"rollout {rollout[:12]}: {path}: its bytes are neither given nor stored")
                self._known.add(item.id)

    def verdict(self, verdict: Verdict) -> None:
        folder = rollout_path(verdict.rollout)
        if not self._has(folder) and f"{folder}/trajectory.json" not in self._edits:
            raise NotFound("rollout", verdict.rollout)
        path = f"{folder}/verdicts/{verdict.verifier}.json"
        if not self._has(path) and path not in self._edits:
            self._edits[path] = TreeItem(FILE, self._blob(verdict.dump()))

    def finish(self, lock: RepositoryLock, time: int) -> None:
        if not self._edits:
            return
        root = edit_tree(self._root, self._edits, self._level, self._add)
        parents = [self.head] if self.head else []
        commit = self.writer.add(COMMIT, encode_commit(root, parents, "Evidence", AUTHOR, time))
        roll_up(self._objects, lock)
        moves = {EVIDENCE: (self.head, commit)}
        publish(lock, self._refs, self.writer, moves, lambda: self._objects.wrote(self.writer))

    def _has(self, path: str) -> bool:
        return self._root is not None and self._objects.subtree(self._root, path) is not None

    def _blob(self, data: bytes) -> str:
        name = blob_id(data)
        if name in self.writer or self._objects.exists(name):
            return name
        return self.writer.add(BLOB, data, name)

    def _tree(self, tree: str, rollout: str) -> TreeItem:
        if tree == EMPTY_TREE:
            self._add(TREE, encode_tree({}))
        elif tree not in self.writer and not self._objects.exists(tree):
            raise StoreError(f"rollout {rollout[:12]} names the tree {tree} but its manifest was not given")
        return TreeItem(FOLDER, tree)

    def _add(self, kind: int, data: bytes) -> str:
        return self.writer.add(kind, data)

    def _level(self, tree: str) -> Level:
        return parse_tree(self.writer.get(tree)[1]) if tree in self.writer else self._objects.list_tree(tree)
