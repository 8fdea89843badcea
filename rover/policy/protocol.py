"""What a policy is: something that sees a policy view, asks for tool calls and reads their outputs.

A policy gets the instruction and the tools of H; the context it reads through the tools alone. It never gets
contract.json, the verifier or the reference. Null attackers also get the paths of the deliverables.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from rover_store.records import Call, ToolCall, TurnTokens, Usage

#: the one key of arguments that were no JSON object; its value is what the model wrote
MALFORMED = "__malformed__"


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as offered: name, one sentence, JSON Schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PolicyView:
    """All that a policy may know before it acts."""

    instruction: str
    tools: tuple[ToolSpec, ...]
    #: paths of the deliverables, for null attackers only; empty for every other policy
    targets: tuple[str, ...] = ()

    def offers(self, tool: str) -> bool:
        return any(t.name == tool for t in self.tools)


@dataclass(frozen=True, slots=True)
class Action:
    """One turn: calls to make (played in order), or none: the policy is done and `message` is its last word."""

    calls: tuple[ToolCall, ...] = ()
    message: str = ""
    usage: Usage = field(default_factory=Usage)
    #: what the model read and wrote, where a policy was asked to tell
    tokens: TurnTokens | None = None


class PolicyFailure(Exception):  # an outcome (policy_error), not an error of rover
    """The policy cannot go on: no plan found, malformed answer. Recorded as `policy_error` with this reason."""


class OutOfTime(PolicyFailure):
    """The seconds that were left are over, and no server is to blame: the loop says what the budget was."""


@runtime_checkable
class Session(Protocol):
    """One rollout of one policy."""

    def act(self, results: tuple[Call, ...], *, deadline_s: float) -> Action:
        """The next turn, given the results of the last one's calls (empty at first).

        `deadline_s`: seconds left in the budget. Raises PolicyFailure (OutOfTime where they are over), or
        ProviderError where a server failed.
        """

    def close(self) -> None:
        """Free what the session holds; cancels a request that is under way."""


@runtime_checkable
class Policy(Protocol):
    """A policy. `id` is a content id: equal ids behave equally for equal inputs and seeds."""

    id: str
    attacker: bool

    def start(self, view: PolicyView, seed: int) -> Session:
        """Begin a rollout. Raises PolicyFailure where the view allows no plan."""


#: A family's plan: a generator that yields tool calls (one turn each), receives each recorded Call, and returns
#: its final message. It raises PolicyFailure where it finds no plan. It knows nothing but the view.
Plan = Callable[[PolicyView, int], Generator[ToolCall, Call, str]]
