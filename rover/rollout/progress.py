"""Statuses of criteria on the workspace after every turn, and the verdict: what credit is computed from.

All trees of all rollouts of a package are graded in one call. Equal evidence under equal checks is judged once in the
life of a grader: most turns only read, and rollouts of one task meet in the same states. A verdict is what the engine
gives, from the evidence where it holds one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rover.rollout import grading
from rover.rollout.env import Env
from rover.rollout.keeper import Keeper
from rover.rollout.place import graded_in, setting
from rover.rollout.records import EndState, Evidence, MemoryEvidence
from rover.rollout.statuses import Key, Row, StatusFile
from rover.rollout.together import Done
from rover.sandbox.pool import Pool
from rover.sandbox.protocol import Runtime
from rover.verify.grade import grade, ran_out, run_verifier
from rover.verify.many import Asked, Known, know
from rover.verify.plan import Graded as State
from rover.verify.plan import plan
from rover_store.errors import SandboxError
from rover_store.ids import digest
from rover_store.records import Criterion, Limits, Score, Verdict

#: rollouts of one call that are judged by a verifier whose checks run out of time, before the rest is given up
MOST_LATE = 2

#: a status, None where a criterion has none on that tree
Status = float | None


@dataclass(frozen=True, slots=True)
class Graded:
    """One rollout. `statuses` has a row a tree: the start, then the workspace after each turn; a row has an item a
    criterion of `criteria`: None where it may not be asked of a tree on the way, or its check failed there. Where the
    verdict alone was asked for there are no rows."""

    verdict: Verdict
    statuses: tuple[Row, ...]
    criteria: tuple[Criterion, ...]


class TreeGrader:
    """Grades rollouts with all their trees. A context manager: closing ends its boxes."""

    def __init__(
        self,
        runtime: Runtime,
        evidence: Evidence | None = None,
        workers: int = 1,
        *,
        clock: Callable[[], float] = time.monotonic,
        kept: Path | None = None,
        limits: Limits | None = None,
    ) -> None:
        """`kept`: a file in which statuses outlive this grader; `limits`: of one grading."""
        self._runtime = runtime
        self.runtime_id = runtime.runtime_id()
        self._evidence: Evidence = evidence if evidence is not None else MemoryEvidence()
        self._clock = clock
        self._limits = limits
        self._boxes = Pool(runtime, max(1, workers))
        self._known = Known()
        self._file = StatusFile(kept, self.runtime_id) if kept is not None else None
        self._rows: dict[Key, Row] = self._file.rows if self._file is not None else {}
        self._new: dict[Key, Row] = {}
        #: verifier -> how often time ran out for its checks, as this call sees it
        self._late: Counter[str] = Counter()
        #: checks that were run in batches so far
        self.checks = 0

    def __enter__(self) -> TreeGrader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all boxes."""
        self._boxes.close()
        if self._file is not None:
            self._file.close()

    def grade(self, items: Sequence[tuple[Env, Done]], *, ways: bool = True) -> list[Graded]:
        """Verdict and statuses of each rollout, in order; without `ways` the verdict alone. New verdicts are put into
        the evidence."""
        packages: dict[str, list[tuple[Env, Done]]] = {}
        self._late = Counter({verifier: min(n, MOST_LATE - 1) for verifier, n in self._late.items()})  # one more try
        for env, done in items:
            if done.result.trajectory.end != "infra_error":
                packages.setdefault(env.verifier_id, []).append((env, done))
        for verifier, some in packages.items():
            if some[0][0].verifier.program is not None:
                continue  # a program is asked of one state at a time
            if not self._late[verifier]:  # in a batch each of them would take its whole time
                self._know(some, ways)
        try:
            with Keeper(self._evidence, self._clock, set()) as keeper:
                return [self._one(env, done, keeper, ways) for env, done in items]
        finally:
            if self._file is not None:
                self._file.add(self._new)
            self._new.clear()

    def _know(self, items: Sequence[tuple[Env, Done]], ways: bool) -> None:
        """Have the memo know all that can be known in few calls."""
        ends: dict[str, Asked] = {}
        between: dict[Key, Asked] = {}
        for env, done in items:
            if self._kept(env, done) is None:
                ends[done.result.id] = Asked(env.verifier.criteria, grading.of_rollout(done.result, env), True)
            for tree in _trees(done)[:-1] if ways else ():
                key = self._key(env, tree)
                if key not in self._rows and key not in between:
                    between[key] = Asked(_progress(env), _state(env, done, tree), False)
        env, asked = items[0][0], [*ends.values(), *between.values()]
        try:
            self.checks += know(self._boxes.box, env.verifier_id, env.verifier_files, asked, self._known, self._limits)
        except SandboxError:
            return  # what is not known is run one by one, and says so

    def _one(self, env: Env, done: Done, keeper: Keeper, ways: bool) -> Graded:
        criteria = env.verifier.criteria
        spoilt = grading.verdict_without_grading(done.result, env, done.result.trajectory.key.runtime)
        if spoilt is not None:
            nothing = (None,) * len(criteria)
            return Graded(spoilt, (nothing,) * (len(_trees(done)) if ways else 0), criteria)
        verdict = self._kept(env, done)
        if verdict is None:
            verdict = self._judged(env, done)
            if verdict.outcome != "infra_error":
                keeper.verdict(verdict)
        if not ways:
            return Graded(verdict, (), criteria)
        rows = [self._row(env, done, tree) for tree in _trees(done)[:-1]]
        return Graded(verdict, (*rows, _statuses(criteria, verdict.scores)), criteria)

    def _kept(self, env: Env, done: Done) -> Verdict | None:
        known = self._evidence.get_verdict(done.result.id, env.verifier_id)
        return known if known is not None and grading.holds(known, done.result.id, env) else None

    def _judged(self, env: Env, done: Done) -> Verdict:
        """The verdict; a crash of the verifier or the box is tried once more, as the engine does, but not where time
        ran out: a check that hangs would take it again and again."""
        if self._late[env.verifier_id] >= MOST_LATE:
            return Verdict(
                rollout=done.result.id, verifier=env.verifier_id, outcome="verifier_error",
                runtime=done.result.trajectory.key.runtime,
                reason=f"not judged: time ran out for its checks on {MOST_LATE} others",
            )  # fmt: skip
        state = grading.of_rollout(done.result, env)
        runtime = graded_in(env, self._runtime, self.runtime_id)
        for left in reversed(range(grading.TRIES)):
            try:
                found = grade(
                    self._boxes.box, env.verifier, env.verifier_files, state,
                    memo=self._known.memo, **setting(env, self._runtime, self._limits),
                )  # fmt: skip
                verdict = found.verdict(done.result.id, env.verifier_id, runtime)
            except SandboxError as error:
                verdict = Verdict(
                    rollout=done.result.id,
                    verifier=env.verifier_id,
                    outcome="infra_error",
                    reason=f"SandboxError: {error.message}",
                    runtime=runtime,
                )
            late = ran_out(verdict.scores)
            self._late[env.verifier_id] += late
            if verdict.outcome not in ("infra_error", "verifier_error") or late or not left:
                break
        return verdict

    def _row(self, env: Env, done: Done, tree: str) -> Row:
        """Statuses on a tree on the way, asked for once."""
        key = self._key(env, tree)
        if key not in self._rows:
            state = _state(env, done, tree)
            try:
                row = self._asked(env, state)
            except SandboxError:  # its box is gone; the next one is another
                row = self._asked(env, state)
            if self._late[env.verifier_id]:
                return row  # what was not asked may be known another time
            self._rows[key] = self._new[key] = row
        return self._rows[key]

    def _key(self, env: Env, tree: str) -> Key:
        """What a row rests on: with a program also where, and within which limits, it runs."""
        verifier = env.verifier_id
        if env.verifier.program is not None:
            where = graded_in(env, self._runtime, self.runtime_id)
            verifier = digest([verifier, env.context_id, env.harness_id, where])
        return (verifier, env.start_tree, tree)

    def _asked(self, env: Env, state: State) -> Row:
        """What is known of a state; the rest is run now."""
        criteria, memo = _progress(env), self._known.memo
        todo = plan(criteria, env.verifier_files, state, memo)
        found: dict[str, Status] = {name: one["score"] for name, one in todo.found.items()}
        for criterion, name in todo.names.items():
            if criterion not in found and name in self._known.statuses:
                found[criterion] = self._known.statuses[name]
        left = tuple(c for c in criteria if c.id not in found)
        if left and self._late[env.verifier_id] < MOST_LATE:
            some = env.verifier.model_copy(update={"criteria": left})
            scores = run_verifier(
                self._boxes.box, some, env.verifier_files, state,
                memo=memo, **setting(env, self._runtime, self._limits),
            )  # fmt: skip
            self._late[env.verifier_id] += ran_out(scores)
            found |= {s.criterion: s.score for s in scores if s.status == "scored"}
        return tuple(found.get(c.id) for c in env.verifier.criteria)


def _trees(done: Done) -> list[str]:
    trajectory = done.result.trajectory
    return [trajectory.start, *(turn.tree for turn in trajectory.turns)]


def _progress(env: Env) -> tuple[Criterion, ...]:
    return tuple(c for c in env.verifier.criteria if c.progress)


def _state(env: Env, done: Done, tree: str) -> State:
    """What a criterion is shown of a tree on the way: no last message, and links as what they are."""
    end = EndState(done.played.trees[tree], done.result.end.read)
    found = State(env.start, end, irregular=dict.fromkeys(end.links, "is a link, not a file"))
    return found if env.verifier.program is None else grading.with_modes(found, end)


def _statuses(criteria: tuple[Criterion, ...], scores: Iterable[Score]) -> Row:
    known = {s.criterion: s.score for s in scores if s.status == "scored"}
    return tuple(known.get(c.id) if c.progress else None for c in criteria)
