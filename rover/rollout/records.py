"""What the engine takes and gives: a request, a result, and an end state that is read when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rover.harness.manifest import Manifest
from rover.policy.protocol import Policy
from rover.rollout.env import Env, in_the_way
from rover.sandbox.protocol import Files
from rover_store.errors import StoreError
from rover_store.evidence import Recorded
from rover_store.ids import blob_id, digest
from rover_store.records import Budget, RolloutKey, Trajectory, Verdict
from rover_store.trees import EXECUTABLE, FILE, LINK, TreeItem


@dataclass(frozen=True, slots=True)
class RolloutRequest:
    """One rollout to be had: run, or found in the evidence. `budget` None is the harness's own.

    `purpose` says that rover runs it by itself, to try a package: such a rollout says nothing of an agent.
    """

    env: Env
    policy: Policy
    seed: int
    budget: Budget | None = None
    purpose: str | None = None

    def key(self, runtime: str) -> RolloutKey:
        """Everything that the rollout depends on."""
        return RolloutKey(
            context=self.env.context_id,
            task=self.env.task_id,
            harness=self.env.harness_id,
            policy=self.policy.id,
            seed=self.seed,
            budget=self.budget or self.env.harness.budget,
            runtime=runtime,
        )


class EndState(Mapping[str, bytes]):
    """The plain files of a workspace, each read at its first use. `links` are apart: they are never followed."""

    def __init__(self, manifest: Manifest, read: Callable[[str], bytes]) -> None:
        self.manifest = manifest
        self.links = tuple(sorted(path for path, item in manifest.items() if item.mode == LINK))
        self._read = self.read = read
        self._held: dict[str, bytes] = {}
        self._items = {path: item.id for path, item in sorted(manifest.items()) if item.mode != LINK}

    def hold(self, known: Mapping[str, bytes]) -> None:
        """Read every file now, blobs in `known` apart: what was deleted meanwhile is found before it is relied on."""
        self._held = {blob: known[blob] if blob in known else self._read(blob) for blob in set(self._items.values())}

    def changed(self, changes: Mapping[str, bytes | TreeItem | None]) -> EndState:
        """A copy with other files, all else with its links and modes.

        Bytes take the mode of the file that they replace; an item is a file or link of this state, under another path;
        None: no file. What is in the way of a path goes.
        """
        items, new = dict(self.manifest), dict[str, bytes]()
        for path, item in changes.items():
            was = items.pop(path, None)
            for other in in_the_way(path, items) if item is not None else ():
                del items[other]
            if isinstance(item, bytes):
                new[blob_id(item)] = item
                mode = EXECUTABLE if was is not None and was.mode == EXECUTABLE else FILE
                items[path] = TreeItem(mode, blob_id(item))
            elif item is not None:
                items[path] = item
        known = {**self._held, **new}
        return EndState(items, lambda blob: known[blob] if blob in known else self._read(blob))

    def __getitem__(self, path: str) -> bytes:
        blob = self._items[path]
        return self._held[blob] if blob in self._held else self._read(blob)

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


class PrunedState(EndState):
    """The end state of a rollout whose workspaces were pruned: whoever looks into it is told so."""

    def __init__(self, package: str) -> None:
        super().__init__({}, lambda _: b"")
        self._package = package

    def __getitem__(self, path: str) -> bytes:
        raise self._gone()

    def __iter__(self) -> Iterator[str]:
        raise self._gone()

    def __len__(self) -> int:
        raise self._gone()

    def changed(self, changes: Mapping[str, bytes | TreeItem | None]) -> EndState:
        raise self._gone()

    def _gone(self) -> StoreError:
        return StoreError(f"{self._package}: the workspaces of this rollout were pruned", hint="run it again")


def changed(state: Files, changes: Mapping[str, bytes | None]) -> Files:
    """A state with other files; one that was recorded keeps its links and modes."""
    if isinstance(state, EndState):
        return state.changed(changes)
    return {path: data for path, data in {**state, **changes}.items() if data is not None}


@dataclass(frozen=True, slots=True)
class RolloutResult:
    """A rollout and its end state. `reused`: it came from the evidence."""

    id: str
    trajectory: Trajectory
    end: EndState
    reused: bool


class Progress(NamedTuple):
    """Told after every rollout."""

    done: int
    total: int
    reused: int
    result: RolloutResult
    verdict: Verdict | None = None


class Evidence(Protocol):
    """Where rollouts and verdicts are kept: a store's evidence, or memory."""

    def get_rollout(self, rollout_id: str) -> Trajectory | None: ...

    def get_verdict(self, rollout_id: str, verifier_tree: str) -> Verdict | None: ...

    def put(self, rollouts: Iterable[Recorded] = (), verdicts: Iterable[Verdict] = ()) -> None: ...

    def tree(self, tree_id: str) -> Mapping[str, TreeItem]: ...

    def read(self, blob_id: str) -> bytes: ...


class MemoryEvidence:
    """Evidence that ends with the process: for a builder's drafts and for tests."""

    def __init__(self) -> None:
        self._rollouts: dict[str, Trajectory] = {}
        self._verdicts: dict[tuple[str, str], Verdict] = {}
        self._trees: dict[str, Manifest] = {}
        self._blobs: dict[str, bytes] = {}

    def get_rollout(self, rollout_id: str) -> Trajectory | None:
        return self._rollouts.get(rollout_id)

    def get_verdict(self, rollout_id: str, verifier_tree: str) -> Verdict | None:
        return self._verdicts.get((rollout_id, verifier_tree))

    def put(self, rollouts: Iterable[Recorded] = (), verdicts: Iterable[Verdict] = ()) -> None:
        for trajectory, blobs, trees in rollouts:
            self._rollouts.setdefault(rollout_id(trajectory.key), trajectory)
            self._blobs.update(blobs)
            self._trees.update(trees)
        for verdict in verdicts:
            self._verdicts.setdefault((verdict.rollout, verdict.verifier), verdict)

    def tree(self, tree_id: str) -> Manifest:
        return self._trees[tree_id]

    def read(self, blob_id: str) -> bytes:
        return self._blobs[blob_id]


def rollout_id(key: RolloutKey) -> str:
    """The id of the rollout with this key."""
    return digest(key.model_dump(mode="json"))


def seed_for(case: str, policy: str, attempt: int) -> int:
    """The seed of one attempt, in 60 bits: of the case, the policy and the attempt alone, so that candidates can be
    compared."""
    return int(digest([case, policy, attempt])[:15], 16)
