"""The scripted policy: plays a written plan, call by call, whatever the outputs say; with seeded slips on demand.

A plan is JSON: {"calls": [{"tool": ..., "arguments": {...}}, ...], "message": "..."} or the bare list of calls.
A call may also be a list of calls, played in one turn.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

from rover.policy.plan import PlanSession
from rover.policy.protocol import Action, PolicyView, Session
from rover.policy.slip import Slip
from rover_store.errors import PackageError
from rover_store.ids import digest
from rover_store.records import Call, ToolCall

Turn = tuple[ToolCall, ...]


class ScriptedPolicy:
    """Plays turns of calls and ends with a message. Its id is a digest of the plan."""

    attacker = False

    def __init__(self, turns: list[Turn], message: str = "", slip: Slip | None = None) -> None:
        self.turns = tuple(turns)
        self.message = message
        self.slip = slip
        plan = [[(c.tool, c.arguments) for c in turn] for turn in turns]
        text = json.dumps([plan, message], sort_keys=True)  # a plan may hold what a stored record may not
        self.id = f"scripted:{digest(text)[:16]}" + (f":{slip.kind}" if slip else "")

    @classmethod
    def of(cls, calls: list[Any], message: str = "", slip: Slip | None = None) -> ScriptedPolicy:
        """From plain data: dicts with `tool` and `arguments`, or lists of them for one turn."""
        return cls(_turns(calls, "plan"), message, slip)

    @classmethod
    def load(cls, path: Path, slip: Slip | None = None) -> ScriptedPolicy:
        """From a JSON file. PackageError names the file, the place and the reason."""
        try:
            value = json.loads(path.read_bytes())
        except OSError as error:
            raise PackageError(str(path), "", (error.strerror or str(error)).lower()) from None
        except (ValueError, RecursionError) as error:
            raise PackageError(str(path), "", f"not valid JSON ({error})") from None
        if isinstance(value, list):
            value = {"calls": value}
        if not isinstance(value, dict) or not isinstance(value.get("calls"), list):
            raise PackageError(str(path), "calls", "must be a list of calls")
        message = value.get("message", "")
        if not isinstance(message, str):
            raise PackageError(str(path), "message", "must be text")
        return cls(_turns(value["calls"], str(path)), message, slip)

    def start(self, view: PolicyView, seed: int) -> Session:
        if self.slip is None:
            return _Script(self)
        return PlanSession(self._plan, view, seed, self.slip)

    def _plan(self, view: PolicyView, seed: int) -> Generator[ToolCall, Call, str]:
        for turn in self.turns:
            for call in turn:  # noqa: UP028  # a tuple takes no sent value
                yield call
        return self.message


class _Script:
    def __init__(self, policy: ScriptedPolicy) -> None:
        self._policy = policy
        self._at = 0

    def act(self, results: tuple[Call, ...], *, deadline_s: float) -> Action:
        if self._at == len(self._policy.turns):
            return Action(message=self._policy.message)
        self._at += 1
        return Action(calls=self._policy.turns[self._at - 1])

    def close(self) -> None:
        """Nothing is held."""


def _turns(calls: list[Any], file: str) -> list[Turn]:
    turns: list[Turn] = []
    count = 0
    for number, item in enumerate(calls):
        turn = []
        for call in item if isinstance(item, list) else [item]:
            where = f"calls.{number}"
            if not isinstance(call, dict) or not isinstance(call.get("tool"), str):
                raise PackageError(file, where, "must be an object with `tool` and `arguments`")
            if not isinstance(call.get("arguments", {}), dict):
                raise PackageError(file, f"{where}.arguments", "must be an object")
            count += 1
            turn.append(ToolCall(id=f"c{count}", tool=call["tool"], arguments=call.get("arguments", {})))
        if turn:
            turns.append(tuple(turn))
    return turns
