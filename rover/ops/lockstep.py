"""Rollouts that nobody has run yet, played side by side in one box and put into the evidence.

For work in bulk: calls of many rollouts go into the box together, and turns of a model are asked for in batches.
Whoever wants results asks the engine, which then finds them. What the infrastructure spoils is not kept: the engine
runs it again by itself. Policies that wait for a server are left to the engine, which has its own number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rover.policy.openai import OpenAIPolicy
from rover.rollout.place import runtime_at
from rover.rollout.records import RolloutRequest, rollout_id
from rover.rollout.together import WIDTH, Together, keep

if TYPE_CHECKING:
    from rover.policy.protocol import Policy
    from rover.sandbox.protocol import Runtime
    from rover.sandbox.rendezvous import Handler
    from rover_store.store import Store


class Lockstep:
    """Plays ahead of an engine. A context manager: closing ends its boxes.

    `fresh` holds the ids of the rollouts that it played. The wall-clock budget of a rollout does not run: how long a
    turn takes here says nothing of one rollout alone.
    """

    def __init__(self, store: Store, runtime: Runtime, width: int = WIDTH) -> None:
        self._store = store
        self._runtime = runtime
        self._width = width
        self._acting: Handler | None = None
        self._together: Together | None = None
        self.fresh: set[str] = set()

    def __enter__(self) -> Lockstep:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._together is not None:
            self._together.close()

    def __call__(
        self, requests: Sequence[RolloutRequest], told: Callable[[int, int], None] = lambda done, total: None
    ) -> None:
        """Play those that the evidence does not hold, a box full at a time; `told` how many are done."""
        runtime_id, new = self._runtime.runtime_id(), {}
        for request in requests:
            rollout = rollout_id(request.key(runtime_at(request.env, self._runtime, runtime_id)))
            if not isinstance(request.policy, OpenAIPolicy) and rollout not in new:
                known = self._store.evidence.get_rollout(rollout)
                if known is None or known.end == "infra_error" or known.pruned:
                    new[rollout] = request
        waiting = list(new.items())
        for first in range(0, len(waiting), self._width):
            some = dict(waiting[first : first + self._width])
            done = self._box(next(iter(some.values())).policy).play(list(some.values()))
            keep(self._store.evidence, done)
            self.fresh.update(some)
            told(first + len(some), len(waiting))

    def _box(self, policy: Policy) -> Together:
        """The lanes, and who answers for a model's turns: all requests of a call are of one policy's kind."""
        acting: Handler | None = getattr(policy, "acting", None)
        if self._together is None or acting != self._acting:
            if self._together is not None:
                self._together.close()
            self._acting = acting
            self._together = Together(self._runtime, self._width, acting, clock=lambda: 0.0)
        return self._together
