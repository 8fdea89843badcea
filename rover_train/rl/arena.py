"""Where a model plays: packages of one commit, many rollouts in lockstep, each graded turn by turn.

Training and evaluation share it. What the infrastructure spoils is told apart: it never becomes a reward.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rover.rollout import grading
from rover.rollout.env import Env, load_env
from rover.rollout.keeper import start_blobs
from rover.rollout.place import runtime_at
from rover.rollout.progress import Graded, TreeGrader
from rover.rollout.records import RolloutRequest, rollout_id
from rover.rollout.together import Done, Together
from rover.sandbox.rendezvous import Handler
from rover_store.errors import NotFound, PackageError
from rover_store.evidence import Recorded
from rover_store.records import Trajectory, Verdict
from rover_store.trees import TreeItem
from rover_train.evaluation import ERRORS
from rover_train.rl.timing import Timing
from rover_train.sample.policy import KIND, Actor

if TYPE_CHECKING:
    from rover.sandbox.protocol import Runtime
    from rover_store.store import Store
    from rover_train.rows import Row

#: package versions that stay in memory
MOST_ENVS = 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """One rollout: what was asked for, what came of it, and its grading."""

    request: RolloutRequest
    done: Done
    graded: Graded

    @property
    def outcome(self) -> str:
        return self.graded.verdict.outcome

    @property
    def counts(self) -> bool:
        return self.outcome not in ERRORS

    def rows(self) -> tuple[Row, ...]:
        """The training rows, where a model played."""
        session: Any = self.done.session
        found: tuple[Row, ...] = session.rows(self.done.result.id, self.request.env.package) if session else ()
        return found


class Arena:
    """Living boxes and graders over one commit. A context manager: closing ends its boxes."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        commit: str,
        *,
        width: int = 64,
        workers: int = 1,
        timing: Timing | None = None,
        statuses: Path | None = None,
    ) -> None:
        """`statuses`: a file in which what trees were graded as outlives the arena."""
        self.store = store
        self.commit = commit
        self._runtime, self.runtime_id = runtime, runtime.runtime_id()
        self.timing = timing or Timing()
        #: serves the turns of what is played now
        self.actor: Actor | None = None
        # no wall-clock budget: what a rollout becomes may not depend on how busy the machine is
        self._together = Together(
            runtime, width=width, acting=self._acting, clock=lambda: 0.0, timed=self._timed
        )
        self._grader = TreeGrader(runtime, Forgetful(), workers, kept=statuses)
        self._entries = {entry.name: entry.tree for entry in store.packages(commit)}
        self._envs: dict[str, Env] = {}

    def __enter__(self) -> Arena:
        self._together.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._together.__exit__(kind, error, trace)
        finally:
            self._grader.close()

    def env(self, name: str) -> Env:
        """A package of the commit, ready to run."""
        found = self._envs.get(name)
        if found is None:
            if len(self._envs) >= MOST_ENVS:
                self._envs.clear()
            try:
                found = self._envs[name] = load_env(self.store, self._entries[name])
            except PackageError as error:
                raise PackageError(f"{name}/{error.file}", error.field, error.reason) from None
        return found

    def known(self, request: RolloutRequest) -> tuple[str, Trajectory, Verdict] | None:
        """A rollout and its verdict as the evidence holds them."""
        key = request.key(runtime_at(request.env, self._runtime, self.runtime_id))
        rollout = rollout_id(key)
        trajectory = self.store.evidence.get_rollout(rollout)
        if trajectory is None or trajectory.end == "infra_error" or trajectory.key != key:
            return None
        verdict = self.store.evidence.get_verdict(rollout, request.env.verifier_id)
        if verdict is None or not grading.holds(verdict, rollout, request.env):
            return None
        return rollout, trajectory, verdict

    def play(
        self, requests: Sequence[RolloutRequest], actor: Actor | None = None, *, ways: bool = True
    ) -> list[Entry]:
        """Play and grade, in the order of the requests. `ways`: the workspace after each turn too."""
        self.actor = actor
        try:
            played = self._together.play(requests)
        finally:
            self.actor = None
        with self.timing.part("grading"):
            ended = [(r.env, done) for r, done in zip(requests, played, strict=True)]
            graded = self._grader.grade(ended, ways=ways)
        return [Entry(*three) for three in zip(requests, played, graded, strict=True)]

    def keep(self, entries: Sequence[Entry]) -> list[str]:
        """Put rollouts and verdicts into the evidence, those apart that the infrastructure spoilt. Ids, in order."""
        kept = [entry for entry in entries if entry.counts]
        with self.timing.part("store"):
            recorded = [_recorded(entry) for entry in kept]
            if recorded:
                self.store.evidence.put(recorded, [entry.graded.verdict for entry in kept])
        return [entry.done.result.id for entry in kept]

    def _acting(self, pending: list[tuple[int, Any]]) -> dict[int, Any]:
        assert self.actor is not None, KIND
        return self.actor.acting(pending)

    def _timed(self, kind: str, handler: Handler) -> Handler:
        return self.timing.timed("generate" if kind == KIND else kind, handler)


class Forgetful:
    """Evidence that holds nothing: verdicts of training are kept with their rollouts, or not at all."""

    def get_rollout(self, rollout_id: str) -> Trajectory | None:
        return None

    def get_verdict(self, rollout_id: str, verifier_tree: str) -> Verdict | None:
        return None

    def put(self, rollouts: Iterable[Recorded] = (), verdicts: Iterable[Verdict] = ()) -> None:
        return None

    def tree(self, tree_id: str) -> Mapping[str, TreeItem]:
        raise NotFound("tree", tree_id)

    def read(self, blob_id: str) -> bytes:
        raise NotFound("blob", blob_id)


def _recorded(entry: Entry) -> Recorded:
    played = entry.done.played
    start = start_blobs(entry.request.env)
    ids = {item.id for manifest in played.trees.values() for item in manifest.values()}
    blobs = {i: played.blobs[i] if i in played.blobs else start[i] for i in sorted(ids)}
    return Recorded(played.trajectory, blobs, played.trees)
