"""Sessions that play a plan, a generator of tool calls, one call a turn; a slip may change what it asks for."""

from __future__ import annotations

import random
from collections.abc import Generator

from rover.policy.protocol import Action, Plan, PolicyFailure, PolicyView
from rover.policy.slip import Slip, pretended
from rover_store.records import Call, ToolCall


class PlanSession:
    """One run of a plan."""

    def __init__(self, plan: Plan, view: PolicyView, seed: int, slip: Slip | None = None) -> None:
        self._steps: Generator[ToolCall, Call, str] | None = plan(view, seed)
        self._slip = slip.fresh() if slip is not None else None
        self._rng = random.Random(seed)
        self._started = False
        self._asked: ToolCall | None = None

    def act(self, results: tuple[Call, ...], *, deadline_s: float) -> Action:
        result = results[0] if results else None
        if result is not None and self._asked is not None:
            # the plan is told of the call that it asked for, not of what a slip made of it
            result = result.model_copy(update={"arguments": self._asked.arguments})
        while True:
            asked = self._next(result)
            if isinstance(asked, str):
                return Action(message=asked)
            call = asked if self._slip is None else self._slip.apply(asked, self._rng)
            self._asked = asked
            if call is not None:
                return Action(calls=(call,))
            if self._slip is not None and self._slip.kind == "stop_early":
                return Action(message="Done.")
            result = pretended(asked)

    def _next(self, result: Call | None) -> ToolCall | str:
        if self._steps is None:
            raise PolicyFailure("the plan has ended")
        try:
            if self._started and result is not None:
                return self._steps.send(result)
            self._started = True
            return next(self._steps)
        except StopIteration as end:
            self._steps = None
            return str(end.value or "")
        except PolicyFailure:
            raise
        except Exception as error:  # a plan that stumbles over what it reads has found no plan
            raise PolicyFailure(f"the plan broke: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        if self._steps is not None:
            self._steps.close()
            self._steps = None
