"""Statuses of criteria on the workspace after every turn, and the verdict: what credit is computed from.

Equal evidence under equal checks is judged once in the life of a grader: most turns only read, and rollouts of one
task meet in the same states.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rover.rollout import grading
from rover.rollout.env import Env
from rover.rollout.records import EndState, Evidence, RolloutResult
from rover.rollout.together import Done
from rover.sandbox.pool import Pool
from rover.sandbox.protocol import Files, Runtime, Sandbox
from rover.verify.grade import Graded as State
from rover.verify.grade import grade, run_checks
from rover.verify.shown import Memo
from rover_store.records import Criterion, Verdict

#: a status, None where a criterion has none on that tree
Status = float | None


@dataclass(frozen=True, slots=True)
class Graded:
    """One rollout. `statuses` has a row a tree, the start first, then the workspace after each turn; a row has an item a
    criterion of `criteria`."""

    verdict: Verdict
    statuses: tuple[tuple[Status, ...], ...]
    criteria: tuple[Criterion, ...]


class TreeGrader:
    """Grades rollouts with all their trees. A context manager: closing ends its boxes."""

    def __init__(self, runtime: Runtime, evidence: Evidence | None = None, workers: int = 1) -> None:
        self.runtime_id = runtime.runtime_id()
        self._evidence = evidence
        self._boxes = Pool(runtime, max(1, workers))
        self._memo = Memo()

    def __enter__(self) -> TreeGrader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._boxes.close()

    def grade(self, items: Sequence[tuple[Env, Done]]) -> list[Graded]:
        """Verdict and statuses of each rollout, in order."""
        return [self._one(env, done) for env, done in items]

    def _one(self, env: Env, done: Done) -> Graded:
        criteria = env.verifier.criteria
        verdict = self._verdict(env, done.result)
        rows: list[tuple[Status, ...]] = []
        trajectory = done.result.trajectory
        trees = [trajectory.start, *(turn.tree for turn in trajectory.turns)]
        blobs = done.result.end._read
        for tree in trees:
            end = EndState(done.played.trees[tree], blobs)
            state = State(env.start, end, "", dict.fromkeys(end.links, "is a link, not a file"))
            wanted = tuple(c for c in criteria if c.progress)
            scores = run_checks(self._lend, wanted, env.verifier_files, state, memo=self._memo)
            known = {s.criterion: s.score if s.status == "scored" else None for s in scores}
            rows.append(tuple(known.get(c.id) for c in criteria))
        return Graded(verdict, tuple(rows), criteria)

    def _verdict(self, env: Env, result: RolloutResult) -> Verdict:
        spoilt = grading.verdict_without_grading(result, env, self.runtime_id)
        if spoilt is not None:
            return spoilt
        judgement = grade(self._lend, env.verifier, env.verifier_files, grading.of_rollout(result, env), memo=self._memo)
        return judgement.verdict(result.id, env.verifier_id, self.runtime_id)

    @contextlib.contextmanager
    def _lend(self, files: Files) -> Iterator[Sandbox]:
        with self._boxes.box(files) as box:
            yield box
