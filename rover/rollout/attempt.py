"""One rollout in a box of a pool: tried once more where the infrastructure fails, refused where the runtime lacks
what the package needs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from rover.harness.loop import Job, Played, Stopped, play
from rover.policy.protocol import Session
from rover.rollout.job import unplayed
from rover.rollout.place import place_of, refusal
from rover.rollout.records import RolloutRequest
from rover.sandbox.pool import Pool
from rover.sandbox.protocol import Runtime
from rover_store.errors import SandboxError

#: so often a rollout is tried that the infrastructure spoils
TRIES = 2


@dataclass(slots=True)
class Attempts:
    """Plays rollouts. `sessions` are those that are open now, `stopping` ends them all."""

    runtime: Runtime
    clock: Callable[[], float]
    stopping: threading.Event = field(default_factory=threading.Event)
    sessions: set[Session] = field(default_factory=set)

    def play(
        self, boxes: Pool, request: RolloutRequest, job: Job, *, told: Callable[[Session], None] = lambda session: None
    ) -> Played:
        """The rollout; an infra_error where it failed twice, or is refused. Stopped where `stopping` is set.

        `told` gets the session of each try.
        """
        refused = refusal(request.env, self.runtime)
        if refused:
            return unplayed(job, SandboxError(refused))
        played: Played | None = None
        for _ in range(TRIES):
            try:
                return self._once(boxes, request, job, told)
            except _Spoilt as error:
                played = error.played
            except SandboxError as error:
                played = played or unplayed(job, error)
            if self.stopping.is_set():
                raise Stopped
        assert played is not None
        return played

    def _once(self, boxes: Pool, request: RolloutRequest, job: Job, told: Callable[[Session], None]) -> Played:
        env, policy = request.env, request.policy
        mine: list[Session] = []

        def opened(session: Session) -> None:
            mine.append(session)
            self.sessions.add(session)
            told(session)

        # a policy that is a program of its own plays by itself
        by_itself = getattr(policy, "play", None)
        place = place_of(env, self.runtime, getattr(policy, "place", None))
        try:
            with boxes.box(env.start, env.harness.limits, place) as box:
                # one that brings files of its own shows them to its commands
                box = getattr(policy, "around", lambda inner: inner)(box)
                if by_itself is not None:
                    played: Played = by_itself(box, job, clock=self.clock, stop=self.stopping.is_set, opened=opened)
                else:
                    played = play(box, policy, job, clock=self.clock, stop=self.stopping.is_set, opened=opened)
                if played.trajectory.end == "infra_error":
                    raise _Spoilt(played)  # so that the box is not used again
            return played
        finally:
            self.sessions.difference_update(mine)


class _Spoilt(SandboxError):
    """A rollout that ended with an infra_error."""

    def __init__(self, played: Played) -> None:
        super().__init__(played.trajectory.error)
        self.played = played
