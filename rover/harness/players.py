"""Who plays a policy: the tool loop, or, where the policy is a program of its own, what runs such a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from rover.harness.loop import Clock, Job, Played, play
from rover.policy.protocol import Policy, Session
from rover.sandbox.protocol import Sandbox


class Player(Protocol):
    """Plays one rollout in a box that holds the start state. As `loop.play` otherwise."""

    def __call__(
        self, box: Sandbox, job: Job, *, clock: Clock, stop: Callable[[], bool], opened: Callable[[Session], None]
    ) -> Played: ...


def turn_by_turn(policy: Policy) -> bool:
    """Whether a policy is asked turn by turn. Programs are not, and neither is one that brings a `play`."""
    return not hasattr(policy, "play") and not getattr(policy, "program", False)


def player_of(policy: Policy) -> Player:
    """What plays this policy."""
    if hasattr(policy, "play"):
        return cast(Player, policy.play)
    if not getattr(policy, "program", False):
        return lambda box, job, **how: play(box, policy, job, **how)
    from rover.harness.program import play_program
    from rover.policy.program import ProgramPolicy

    assert isinstance(policy, ProgramPolicy)
    mine: ProgramPolicy = policy

    def program(box: Sandbox, job: Job, **how: Any) -> Played:
        return play_program(box, mine, job, **how)

    return program
