"""Many rollouts in lockstep: their tool calls run in one box, their turns can be asked of one model in batches.

Trajectories are those that the engine gives, byte for byte: the loop, the tools and the records are the same, only
the boxes are lanes of one (`rover.sandbox.lanes`). Nothing is looked up and nothing kept unless `keep` is called:
a rollout that is trained on has just been sampled. Requests are played in waves of `width` lanes, in order.

A session may ask for its turns by `rover.sandbox.rendezvous.ask("act", payload)`; all lanes that wait for a turn meet
in one call of `acting`. Tools are served first: only when no lane waits for a tool do the others act.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from rover.harness.loop import Job, Played, Stopped, play
from rover.harness.players import turn_by_turn
from rover.harness.tools.specs import WRITERS
from rover.policy.protocol import Session
from rover.rollout.attempt import Attempts, tried_again
from rover.rollout.env import Env
from rover.rollout.job import checked, job_of, unplayed
from rover.rollout.keeper import Blobs, Keeper, start_blobs
from rover.rollout.place import is_plain, runtime_at
from rover.rollout.records import EndState, Evidence, RolloutRequest, RolloutResult, rollout_id
from rover.sandbox.lanes import LaneBox
from rover.sandbox.pool import Pool
from rover.sandbox.protocol import Runtime
from rover.sandbox.rendezvous import Abandoned, Handler, Rendezvous
from rover_store.errors import SandboxError

WIDTH = 64


@dataclass(frozen=True, slots=True)
class Done:
    """One rollout: its result, all that was played, and the policy's session (None where it found no plan)."""

    request: RolloutRequest
    result: RolloutResult
    played: Played
    session: Session | None

    @property
    def env(self) -> Env:
        return self.request.env


class Together:
    """Plays requests side by side. A context manager: closing ends its boxes. One thread at a time may play."""

    def __init__(
        self,
        runtime: Runtime,
        width: int = WIDTH,
        acting: Handler | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        timed: Callable[[str, Handler], Handler] = lambda kind, handler: handler,
    ) -> None:
        self._runtime = runtime
        self.runtime_id = runtime.runtime_id()
        #: wraps the handlers of `tools` and `act`, for whoever measures
        self._timed = timed
        self.width = max(1, width)
        self._clock = clock
        self._lanes = LaneBox(runtime, writes=_writes)
        # for what no lane can hold; each has a box of its own, or one that waits for a turn would wait for one without
        self._apart, self._boxes = Attempts(runtime, clock), Pool(runtime, self.width)
        self._acting = acting
        self._sessions: dict[int, Session] = {}

    def __enter__(self) -> Together:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all boxes."""
        self._lanes.close()
        self._boxes.close()

    def play(self, requests: Sequence[RolloutRequest]) -> list[Done]:
        """The rollouts, in the order of the requests.

        One that ends as an infra_error is tried once more; where it does again, that is its result. An interrupt ends
        all lanes and goes on.
        """
        for env in {id(r.env): r.env for r in requests}.values():
            checked(env)
        done: list[Done] = []
        for first in range(0, len(requests), self.width):
            done += self._wave(requests[first : first + self.width])
        return done

    def _wave(self, requests: Sequence[RolloutRequest]) -> list[Done]:
        handlers: list[tuple[str, Handler]] = [("tools", self._timed("tools", self._lanes.serve))]
        if self._acting is not None:
            handlers.append(("act", self._timed("act", self._acting)))
        meeting = Rendezvous(handlers)
        self._apart.stopping.clear()
        found: dict[int, Done | BaseException] = {}

        def run(number: int) -> None:
            with meeting.lane(number):
                try:
                    found[number] = self._one(meeting, number, requests[number])
                except (Abandoned, Stopped):
                    pass  # who told the lanes to end knows why
                except BaseException as error:
                    found[number] = error

        meeting.expect(range(len(requests)))
        threads = [threading.Thread(target=run, args=(n,), name=f"lane-{n}") for n in range(len(requests))]
        try:
            for thread in threads:
                thread.start()
        except BaseException as error:  # no more threads to be had
            for number, thread in enumerate(threads):
                if thread.ident is None:
                    meeting.leave(number)
            meeting.abandon(error)
            raise
        meeting.drive(ending=self._cancel)
        for thread in threads:
            thread.join()
        for number in range(len(requests)):
            outcome = found[number]
            if isinstance(outcome, BaseException):
                raise outcome
        return [done for _, done in sorted(found.items()) if isinstance(done, Done)]

    def _cancel(self) -> None:
        self._apart.stopping.set()
        for session in [*self._sessions.values(), *self._apart.sessions]:
            session.close()

    def _one(self, meeting: Rendezvous, number: int, request: RolloutRequest) -> Done:
        """One rollout in its lane, or in a box of its own; where the infrastructure fails, once more."""
        job = job_of(request, runtime_at(request.env, self._runtime, self.runtime_id))
        if not shares_a_box(request):
            sessions: list[Session] = []
            found = self._apart.play(self._boxes, request, job, told=sessions.append)
            return self._done(request, job, found, sessions[-1] if sessions else None)
        box = self._lanes.sandbox(number, partial(meeting.ask, "tools"))
        played: Played | None = None
        session: Session | None = None

        def opened(mine: Session) -> None:
            nonlocal session
            session = self._sessions[number] = mine

        lost: str | None = None  # why the try before was given up
        for _ in range(2):
            if played is not None:
                lost = played.trajectory.error
            session = None
            try:
                box.reset(request.env.start, limits=request.env.harness.limits)
                played = play(box, request.policy, job, clock=self._clock, opened=opened)
                if played.trajectory.end != "infra_error":
                    break
            except SandboxError as error:
                played = played or unplayed(job, error)
            finally:
                self._sessions.pop(number, None)
        assert played is not None
        return self._done(request, job, tried_again(played, lost), session)

    @staticmethod
    def _done(request: RolloutRequest, job: Job, played: Played, session: Session | None) -> Done:
        if request.purpose is not None:
            labelled = played.trajectory.model_copy(update={"purpose": request.purpose})
            played = Played(labelled, played.trees, played.blobs, played.end)
        blobs = Blobs(played.blobs, start_blobs(request.env))
        end = EndState(played.end, blobs.read)
        result = RolloutResult(rollout_id(job.key), played.trajectory, end, False)
        return Done(request, result, played, session)


def shares_a_box(request: RolloutRequest) -> bool:
    """Whether a rollout can be a lane beside others."""
    policy = request.policy
    return is_plain(request.env) and turn_by_turn(policy) and getattr(policy, "place", None) is None


def in_time(
    together: Together, requests: Sequence[RolloutRequest], clock: Callable[[], float]
) -> dict[str, Played]:
    """Rollouts that are what each would be by itself, by id. The clock of `together` stands still, since a lane waits
    for all others: one is taken where its whole wave took less than it was given, by `clock`. What the infrastructure
    spoilt is left out."""
    found: dict[str, Played] = {}
    for first in range(0, len(requests), together.width):
        began = clock()
        done = together.play(requests[first : first + together.width])
        spent = clock() - began
        for one in done:
            trajectory = one.played.trajectory
            if trajectory.end != "infra_error" and spent < trajectory.key.budget.seconds:
                found[one.result.id] = one.played
    return found


def keep(evidence: Evidence, done: Iterable[Done], *, clock: Callable[[], float] = time.monotonic) -> None:
    """Put rollouts into the evidence; those that the infrastructure spoilt are never kept."""
    with Keeper(evidence, clock, set()) as keeper:
        for one in done:
            if one.played.trajectory.end != "infra_error":
                keeper.rollout(one.played, Blobs(one.played.blobs, start_blobs(one.env)))


def _writes(payload: object) -> bool:
    return not isinstance(payload, dict) or payload.get("tool") in WRITERS
