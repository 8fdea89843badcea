"""One rollout in a box of a pool: tried once more where the infrastructure fails, refused where the runtime lacks
what the package needs."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from rover.harness.loop import Job, Played, Stopped
from rover.harness.players import player_of
from rover.policy.protocol import Session
from rover.rollout.job import unplayed
from rover.rollout.place import place_of, refusal, runtime_at
from rover.rollout.records import RolloutRequest
from rover.sandbox.pool import Pool
from rover.sandbox.protocol import Place, Runtime, Sandbox
from rover_store.errors import SandboxError

#: so often a rollout is tried that the infrastructure spoils
TRIES = 2
#: so many names are given to one command
MOST_NAMES = 100


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

        An agent that is killed both times did it itself: one that was killed from outside has no such luck twice.
        `told` gets the session of each try.
        """
        refused = refusal(request.env, self.runtime)
        if refused:
            return unplayed(job, SandboxError(refused))
        try:
            place = place_of(request.env, self.runtime, getattr(request.policy, "place", None))
            own = place.image if place is not None else ""
            if own and job.key.runtime != runtime_at(request.env, self.runtime, self.runtime.runtime_id()):
                raise SandboxError("the package's image was not there when the run began", hint="run it again")
        except SandboxError as error:
            return unplayed(job, error)
        played: Played | None = None
        lost: str | None = None  # why the try before was given up
        for _ in range(TRIES):
            try:
                return tried_again(self._once(boxes, request, job, place, told), lost)
            except _Spoilt as error:
                if played is not None and played.killed and error.played.killed:
                    return tried_again(_by_itself(error.played), lost)
                played = error.played
            except SandboxError as error:
                played = played or unplayed(job, error)
            if self.stopping.is_set():
                raise Stopped
            lost = played.trajectory.error
        assert played is not None
        return tried_again(played, lost)

    def _once(
        self, boxes: Pool, request: RolloutRequest, job: Job, place: Place | None, told: Callable[[Session], None]
    ) -> Played:
        env, policy = request.env, request.policy
        mine: list[Session] = []

        def opened(session: Session) -> None:
            mine.append(session)
            self.sessions.add(session)
            told(session)

        try:
            with boxes.box(env.start, env.harness.limits, place) as box:
                make_runnable(box, env.runnable)
                # one that brings files of its own shows them to its commands
                box = getattr(policy, "around", lambda inner: inner)(box)
                play = player_of(policy)
                played = play(box, job, clock=self.clock, stop=self.stopping.is_set, opened=opened)
                if played.trajectory.end == "infra_error":
                    raise _Spoilt(played)  # so that the box is not used again
            return played
        finally:
            self.sessions.difference_update(mine)


def tried_again(played: Played, lost: str | None) -> Played:
    """The rollout, which says why the try before it was given up, where there was one."""
    if lost is None:
        return played
    return replace(played, trajectory=played.trajectory.model_copy(update={"retried": lost}))


def _by_itself(played: Played) -> Played:
    """The rollout of an agent that ended itself: the policy's failure."""
    why = {"end": "policy_error", "error": "the agent was killed, and again when it was tried again"}
    return replace(played, trajectory=played.trajectory.model_copy(update=why), killed=False)


def make_runnable(box: Sandbox, paths: Collection[str]) -> None:
    """Give files of a box's start the mode that no plain file has."""
    if paths:
        names = [shlex.quote(path) for path in sorted(paths)]
        some = (names[at : at + MOST_NAMES] for at in range(0, len(names), MOST_NAMES))
        script = "".join(f"chmod 755 -- {' '.join(few)}\n" for few in some)
        done = box.run(["sh", "-e"], stdin=script.encode())
        if done.exit_code != 0:
            raise SandboxError(f"the workspace could not be made ready: {done.stderr.decode('utf-8', 'replace')[:200]}")


class _Spoilt(SandboxError):
    """A rollout that ended with an infra_error."""

    def __init__(self, played: Played) -> None:
        super().__init__(played.trajectory.error)
        self.played = played
