"""The replay policy: makes the calls of a recorded rollout again, turn by turn."""

from __future__ import annotations

from rover.policy.protocol import Action, PolicyView, Session
from rover_store.ids import digest
from rover_store.records import ToolCall, Trajectory


class ReplayPolicy:
    """Plays a trajectory back. Its id is the id of the recorded rollout."""

    attacker = False

    def __init__(self, trajectory: Trajectory) -> None:
        self.trajectory = trajectory
        self.id = f"replay:{digest(trajectory.key.model_dump(mode='json'))}"

    def start(self, view: PolicyView, seed: int) -> Session:
        return _Replay(self.trajectory)


class _Replay:
    def __init__(self, trajectory: Trajectory) -> None:
        self._turns = [turn for turn in trajectory.turns if turn.calls]
        self._message = trajectory.final_message
        self._at = 0

    def act(self, results: tuple[object, ...], *, deadline_s: float) -> Action:
        if self._at == len(self._turns):
            return Action(message=self._message)
        turn = self._turns[self._at]
        self._at += 1
        calls = tuple(ToolCall(id=c.id, tool=c.tool, arguments=c.arguments) for c in turn.calls)
        return Action(calls=calls, message=turn.message)

    def close(self) -> None:
        """Nothing is held."""
