"""A model as a policy: sessions that ask a sampler for turns, alone or in lockstep with other lanes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from rover.policy.protocol import Action, PolicyView, Session
from rover.policy.tokens import TokenLog
from rover.sandbox.rendezvous import Handler, current
from rover_store.records import Call
from rover_train.render import Dialogue, Renderer
from rover_train.rows import Row

#: what sessions ask of a rendezvous; the payload is (session, results)
KIND = "act"


class Actor(Protocol):
    """Serves the turns of many sessions: a sampler in this process, or a server's client."""

    renderer: Renderer

    def acting(self, pending: list[tuple[int, Any]]) -> dict[int, Any]:
        """A rendezvous handler: `pending` holds (lane, (session, results)); see `rover.sandbox.rendezvous`."""


class ModelSession:
    """One rollout: its conversation in tokens, and whether a turn of it is being written."""

    def __init__(self, actor: Actor, dialogue: Dialogue, seed: int, log: TokenLog | None = None) -> None:
        self.dialogue = dialogue
        self.seed = seed
        self.closed = False
        self._actor = actor
        self._log = log

    def act(self, results: tuple[Call, ...], *, deadline_s: float) -> Action:
        """The next turn. PolicyFailure where the window is used up; ProviderError where a server failed."""
        meeting = current()
        payload = (self, results)
        answer = meeting.ask(KIND, payload) if meeting is not None else self._actor.acting([(0, payload)])[0]
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, Action)
        return answer if self._log is None else replace(answer, tokens=self._log.turn(self.dialogue.told()))

    def close(self) -> None:
        """The sampler forgets this lane at its next call."""
        self.closed = True

    def rows(self, rollout: str = "", package: str = "") -> tuple[Row, ...]:
        """The training rows of this rollout, once it is over: ids as sampled; several where the renderer splits."""
        return self.dialogue.rows(rollout, package)


class ModelPolicy:
    """A policy whose turns `actor` writes. `policy_id` names weights, rendering and sampling settings. `tokens`: its
    turns tell their tokens, so that they are recorded."""

    attacker = False

    def __init__(self, actor: Actor, policy_id: str, *, tokens: bool = False) -> None:
        self.id = policy_id
        self.tokens = tokens
        self._actor = actor

    @property
    def acting(self) -> Handler:
        """What serves the turns of lanes that this policy plays in."""
        return self._actor.acting

    def start(self, view: PolicyView, seed: int) -> Session:
        log = TokenLog() if self.tokens else None
        return ModelSession(self._actor, self._actor.renderer.dialogue(view), seed, log)
