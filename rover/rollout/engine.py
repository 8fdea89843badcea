"""Rollouts and verdicts, evidence first: what is known is read, the rest is run, nothing twice.

A rollout is known by what it depends on (context, task, harness, policy, seed, budget, runtime), a verdict by
its rollout and its verifier. Work goes over threads, each with a living box of a pool; finished work is put
into the evidence in small batches, so that an interrupt or a crash loses little. An `infra_error` is tried
once more and never kept: the next run tries again.
"""

from __future__ import annotations

import contextlib
import copy
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from rover.harness.loop import Played, Stopped
from rover.rollout import grading
from rover.rollout.attempt import Attempts
from rover.rollout.env import Env
from rover.rollout.job import checked, job_of
from rover.rollout.keeper import Blobs, Keeper, start_blobs
from rover.rollout.place import refusal, runtime_at, setting
from rover.rollout.records import (
    EndState,
    Evidence,
    MemoryEvidence,
    Progress,
    PrunedState,
    RolloutRequest,
    RolloutResult,
    rollout_id,
)
from rover.rollout.together import Together, in_time, shares_a_box
from rover.sandbox.pool import Pool
from rover.sandbox.protocol import CallResult, Files, Runtime
from rover.verify.grade import Graded, Judgement, grade
from rover.verify.shown import Conditions, Memo
from rover_store.errors import SandboxError, StoreError
from rover_store.ids import digest
from rover_store.records import Trajectory, Verdict

T = TypeVar("T")
Stop = Callable[[], bool]
#: values of calls that are remembered
MOST_CALLS = 512
#: so many rollouts are worth a box of lanes
FEWEST_TOGETHER = 4


class Meter(Protocol):
    """Counts work; a method that raises stops it."""

    def rollout(self) -> None: ...  # before one is run

    def played(self, trajectory: Trajectory) -> None: ...  # after it

    def work(self) -> None: ...  # before a grading or another job


class Engine:
    """Runs and grades. A context manager: closing ends its boxes."""

    def __init__(
        self,
        runtime: Runtime,
        evidence: Evidence | None = None,
        workers: int = 1,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.runtime = runtime
        self.runtime_id = runtime.runtime_id()
        self.evidence: Evidence = evidence if evidence is not None else MemoryEvidence()
        self.workers = max(1, workers)
        self._clock = clock
        self._boxes = Pool(runtime, self.workers)
        self._threads: ThreadPoolExecutor | None = None
        self._attempts = Attempts(runtime, clock)
        self._stopping = self._attempts.stopping
        self._states: dict[tuple[str, str], Verdict] = {}
        self._kept: set[str] = set()
        self._runs_in: dict[str, str] = {}  # by context
        self._memo = Memo()
        self._flights: dict[str, Future[RolloutResult]] = {}  # rollouts that somebody is running now
        self._lock = threading.Lock()
        self._calls: dict[str, CallResult] = {}
        self._together: Together | None = None
        self._played: dict[str, Played] = {}  # in lockstep, and not taken yet
        #: what checks are run under; see `under`
        self.conditions = Conditions()
        #: told of all work before it is done; what it raises ends the work, and what is finished is kept
        self.meter: Meter | None = None
        #: rollouts of this engine so far: those that ran, and those that the evidence held
        self.ran = self.reused = 0

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all boxes and threads."""
        self._stopping.set()
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        self._boxes.close()
        if self._together is not None:
            self._together.close()

    @contextlib.contextmanager
    def under(self, conditions: Conditions) -> Iterator[None]:
        """Grade under other conditions for a while; verdicts that the evidence holds are taken as they are.

        For all threads: where others may be grading meanwhile, `now` of `grade_state` moves one grading alone.
        """
        before, self.conditions = self.conditions, conditions
        try:
            yield
        finally:
            self.conditions = before

    def runtime_at(self, env: Env) -> str:
        """The id of what a package's rollouts run in here, a part of their keys; see `rover.rollout.place`."""
        found = self._runs_in.get(env.context_id)
        if found is None:
            found = self._runs_in.setdefault(env.context_id, runtime_at(env, self.runtime, self.runtime_id))
        return found

    # --- rollouts ----------------------------------------------------------------------------------------
    def rollouts(
        self,
        requests: Sequence[RolloutRequest],
        progress: Callable[[Progress], None] | None = None,
        stop: Stop | None = None,
    ) -> list[RolloutResult]:
        """The rollouts, in the order of the requests; equal requests are run once.

        `stop` is asked between turns; once it says yes, finished work is kept and Stopped is raised. An
        interrupt does the same and goes on as KeyboardInterrupt.
        """
        return [result for result, _ in self._all(requests, False, progress, stop)]

    def run(
        self,
        requests: Sequence[RolloutRequest],
        progress: Callable[[Progress], None] | None = None,
        stop: Stop | None = None,
    ) -> list[tuple[RolloutResult, Verdict]]:
        """Rollouts, each graded as soon as it is done. As `rollouts` otherwise."""
        found = self._all(requests, True, progress, stop)
        return [(result, verdict) for result, verdict in found if verdict is not None]

    def _all(
        self,
        requests: Sequence[RolloutRequest],
        graded: bool,
        progress: Callable[[Progress], None] | None,
        stop: Stop | None,
    ) -> list[tuple[RolloutResult, Verdict | None]]:
        for env in {id(r.env): r.env for r in requests}.values():
            checked(env)
        ids = [rollout_id(r.key(self.runtime_at(r.env))) for r in requests]
        # one piece of work a rollout; requests that differ in the verifier alone share it
        shared: dict[str, dict[str, RolloutRequest]] = {}
        for key, request in zip(ids, requests, strict=True):
            shared.setdefault(key, {}).setdefault(request.env.verifier_id, request)
        order = list(shared)
        done: dict[str, tuple[RolloutResult, dict[str, Verdict]]] = {}
        mine: set[str] = set()
        if progress is None and stop is None and self.workers == 1 and self.meter is None:
            self._ahead([next(iter(found.values())) for found in shared.values()], order)
        with self._landing(mine), Keeper(self.evidence, self._clock, self._kept) as keeper:

            def finish(number: int, found: tuple[RolloutResult, dict[str, Verdict]]) -> None:
                result, verdicts = done[order[number]] = found
                with self._lock:
                    self.reused += result.reused
                    self.ran += not result.reused
                if progress is not None:
                    reused = sum(known.reused for known, _ in done.values())
                    progress(Progress(len(done), len(order), reused, result, next(iter(verdicts.values()), None)))

            work = [lambda k=key: self._one(k, list(shared[k].values()), graded, keeper, mine) for key in order]
            self._each(work, finish, stop)
        return [(done[key][0], done[key][1].get(r.env.verifier_id)) for key, r in zip(ids, requests, strict=True)]

    def _one(
        self, key: str, requests: list[RolloutRequest], graded: bool, keeper: Keeper, mine: set[str]
    ) -> tuple[RolloutResult, dict[str, Verdict]]:
        """One rollout, from the evidence or by running it, and the verdict of each verifier where one is wanted."""
        result = self._recalled(key, requests, graded) or self._shared(key, requests[0], keeper, mine)
        asked = requests if graded else []
        return result, {r.env.verifier_id: self._verdict(result, r.env, keeper) for r in asked}

    def _ahead(self, requests: list[RolloutRequest], keys: list[str]) -> None:
        """Play what has to be run in lockstep, which costs a fraction, where nobody watches or counts single rollouts.
        What comes out well is taken by `_play`; all else is played there by itself."""
        pairs = [(k, r) for k, r in zip(keys, requests, strict=True) if shares_a_box(r)]
        todo = {k: r for k, r in pairs if self.evidence.get_rollout(k) is None}
        if len(todo) < FEWEST_TOGETHER:
            return
        self._stopping.clear()
        self._together = self._together or Together(self.runtime, clock=lambda: 0.0)
        found = in_time(self._together, list(todo.values()), self._clock)
        if self._stopping.is_set():
            raise Stopped
        self._played |= found

    def _recalled(self, key: str, requests: list[RolloutRequest], graded: bool) -> RolloutResult | None:
        """The rollout as the evidence holds it; None where it holds none, or not what it says it is."""
        known = self.evidence.get_rollout(key)
        if known is None or known.end == "infra_error" or rollout_id(known.key) != key:
            return None
        if known.pruned:  # its end state is gone
            whole = self._all_graded(key, requests, graded)
            return RolloutResult(key, known, self.end_of(known), True) if whole else None
        try:
            end = self.end_of(known)
            end.hold(start_blobs(requests[0].env))
        except (StoreError, LookupError, OSError):
            return None  # a part of it was deleted
        return RolloutResult(key, known, end, True)

    def _shared(self, key: str, request: RolloutRequest, keeper: Keeper, mine: set[str]) -> RolloutResult:
        """Run it, or wait for the thread that runs the same one."""
        with self._lock:
            flight = self._flights.get(key)
            owner = flight is None
            if flight is None:
                flight = self._flights[key] = Future()
                mine.add(key)
        if not owner:
            found = flight.result()
            return RolloutResult(key, found.trajectory, found.end, True)
        try:
            if self.meter is not None:
                self.meter.rollout()
            played = _labelled(self._play(request), request.purpose)
        except BaseException as error:
            flight.set_exception(error)
            raise
        if self.meter is not None:
            self.meter.played(played.trajectory)
        blobs = Blobs(played.blobs, start_blobs(request.env))
        result = RolloutResult(key, played.trajectory, EndState(played.end, blobs.read), False)
        if played.trajectory.end != "infra_error":
            keeper.rollout(played, blobs)
        flight.set_result(result)
        return result

    @contextlib.contextmanager
    def _landing(self, mine: set[str]) -> Iterator[None]:
        """Once they are in the evidence, nobody needs to wait for these rollouts any more."""
        try:
            yield
        finally:
            with self._lock:
                for key in mine:
                    self._flights.pop(key, None)

    def _all_graded(self, key: str, requests: list[RolloutRequest], graded: bool) -> bool:
        """Whether the evidence holds every verdict that is asked for, so that no end state is needed."""
        return graded and all(self.evidence.get_verdict(key, r.env.verifier_id) is not None for r in requests)

    def _play(self, request: RolloutRequest) -> Played:
        """Run one rollout, or take it where it was played in lockstep."""
        job = job_of(request, self.runtime_at(request.env))
        known = self._played.pop(rollout_id(job.key), None)
        return self._attempts.play(self._boxes, request, job) if known is None else known

    def end_of(self, trajectory: Trajectory) -> EndState:
        """The end state of a rollout that is in the evidence. Of a pruned one it cannot be read."""
        if trajectory.pruned:
            return PrunedState(trajectory.package)
        tree = trajectory.turns[-1].tree if trajectory.turns else trajectory.start
        return EndState(self.evidence.tree(tree), self.evidence.read)

    # --- grading -----------------------------------------------------------------------------------------
    def grade(
        self, pairs: Iterable[tuple[RolloutResult, Env]], stop: Stop | None = None
    ) -> list[Verdict]:
        """A verdict for each pair, in order; from the evidence where it holds one."""
        todo = list(pairs)
        done: dict[int, Verdict] = {}
        with Keeper(self.evidence, self._clock, self._kept) as keeper:
            work = [lambda r=result, e=env: self._verdict(r, e, keeper) for result, env in todo]
            self._each(work, done.__setitem__, stop)
        return [done[number] for number in range(len(todo))]

    def _verdict(self, result: RolloutResult, env: Env, keeper: Keeper) -> Verdict:
        spoilt = grading.verdict_without_grading(result, env, result.trajectory.key.runtime)
        if spoilt is not None:
            return spoilt
        known = self.evidence.get_verdict(result.id, env.verifier_id)
        if known is not None and grading.holds(known, result.id, env):
            return known
        verdict = self._judge(
            env,
            rollout=result.id,
            graded=grading.of_rollout(result, env),
        )
        if verdict.outcome != "infra_error":
            keeper.verdict(verdict)
        return verdict

    def grade_state(
        self, env: Env, end: Files, final_message: str = "", *, fresh: bool = False, now: Conditions | None = None
    ) -> Verdict:
        """The verdict of a bare end state: the start, the reference, a negative. Kept in memory only.

        `fresh` grades again though the verdict is known: a verifier may be fickle. `now`: under these conditions.
        """
        if fresh or now is not None:
            key = grading.state_id(env, grading.state_tree(env, end), final_message)
            return self._judge(env, key, grading.of_state(env, end, final_message), fresh=True, now=now)
        return self.grade_states([(env, end, final_message)])[0]

    def grade_states(self, states: Sequence[tuple[Env, Files, str]], stop: Stop | None = None) -> list[Verdict]:
        """Verdicts of many bare end states with their last messages, in order, on all workers."""
        now = f"{self.conditions.clock:g} {self.conditions.seed} "
        keys = [
            (grading.state_id(env, grading.state_tree(env, end), said), now + env.verifier_id)
            for env, end, said in states
        ]
        new = {key: state for key, state in zip(keys, states, strict=True) if key not in self._states}
        found = dict(self._states)

        def judge(key: tuple[str, str]) -> Verdict:
            env, end, said = new[key]
            return self._judge(env, rollout=key[0], graded=grading.of_state(env, end, said))

        def finish(number: int, verdict: Verdict) -> None:
            key = list(new)[number]
            found[key] = verdict
            if verdict.outcome != "infra_error":
                self._states[key] = verdict

        self._each([partial(judge, key) for key in new], finish, stop)
        return [found[key] for key in keys]

    def _judge(
        self, env: Env, rollout: str, graded: Graded, *, fresh: bool = False, now: Conditions | None = None
    ) -> Verdict:
        """Grade; a crash of the verifier or the box is tried once more in another box."""
        if self.meter is not None:
            self.meter.work()
        if refused := refusal(env, self.runtime):
            return Judgement("infra_error", None, None, (), refused).verdict(rollout, env.verifier_id, self.runtime_id)
        graded = replace(graded, conditions=now or self.conditions)
        memo = None if fresh else self._memo
        runtime = self.runtime_id if env.verifier.program is None else self.runtime_at(env)
        verdict: Verdict | None = None
        for _ in range(grading.TRIES):
            try:
                where = setting(env, self.runtime)
                judgement = grade(
                    self._boxes.box, env.verifier, env.verifier_files, graded, memo=memo, **where
                )  # fmt: skip
                verdict = judgement.verdict(rollout, env.verifier_id, runtime)
            except SandboxError as error:
                if self._stopping.is_set():
                    raise Stopped from None
                verdict = Verdict(
                    rollout=rollout,
                    verifier=env.verifier_id,
                    outcome="infra_error",
                    reason=f"SandboxError: {error.message}",
                    runtime=runtime,
                )
            if verdict.outcome not in ("infra_error", "verifier_error"):
                break
        assert verdict is not None
        return verdict

    # --- anything else in a box --------------------------------------------------------------------------
    def call(self, entry: str, payload: Any, files: Files) -> CallResult:
        """Run `module:function(payload)` in a fresh state that holds `files`.

        Entries are functions of payload and files: an equal call that gave a value is not made again.
        """
        key = digest([entry, payload, self._memo.ids(files)])
        known = self._calls.get(key)
        if known is not None:
            return replace(known, value=copy.deepcopy(known.value))
        if self.meter is not None:
            self.meter.work()
        with self._boxes.box(files) as box:
            result = box.call(entry, payload)
        if not (result.breach or result.error):
            if len(self._calls) >= MOST_CALLS:
                self._calls.clear()
            self._calls[key] = replace(result, value=copy.deepcopy(result.value))
        return result

    def _each(self, work: Sequence[Callable[[], T]], finish: Callable[[int, T], None], stop: Stop | None) -> None:
        """Do all the work on the engine's threads (on this one where there is one worker)."""
        asked = stop or (lambda: False)
        self._stopping.clear()
        if self.workers == 1 or len(work) < 2:
            for number, piece in enumerate(work):
                if asked():
                    raise Stopped
                finish(number, piece())
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix="rollout")
        running: dict[Future[T], int] = {self._threads.submit(piece): n for n, piece in enumerate(work)}
        try:
            while running:
                finished, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in finished:
                    finish(running.pop(future), future.result())
                if asked():
                    raise Stopped
        except BaseException:
            self._stop(running)
            raise

    def _stop(self, running: Mapping[Future[T], int]) -> None:
        """End what runs, in its boxes and at its servers, and wait for it."""
        self._stopping.set()
        for future in running:
            future.cancel()
        for session in list(self._attempts.sessions):
            session.close()
        self._boxes.close()
        wait(running)
        self._boxes = Pool(self.runtime, self.workers)


def _labelled(played: Played, purpose: str | None) -> Played:
    if purpose is None:
        return played
    return replace(played, trajectory=played.trajectory.model_copy(update={"purpose": purpose}))
