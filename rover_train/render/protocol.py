"""What a dialect is: the text form of calls, of what tools answer, and of the tools on offer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from rover.policy.protocol import Action, PolicyView
from rover_store.records import Call, ToolCall

#: a message as chat templates take it: role and content
Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools as a policy is told of them: schemas for a template that shows tools, or text for the system prompt."""

    schemas: list[dict[str, Any]] = field(default_factory=list)
    text: str = ""


@runtime_checkable
class Dialect(Protocol):
    """A way to write turns. Stateless; equal input gives equal text."""

    name: str
    #: what stands where an observation was cut
    cut: str

    def write(self, calls: tuple[ToolCall, ...], message: str) -> str:
        """The text of an assistant turn. `read` gives the calls back (ids apart)."""

    def read(self, text: str, turn: int) -> Action:
        """What an assistant turn asks for; never raises. A call that cannot be read has MALFORMED arguments."""

    def show(self, results: tuple[Call, ...]) -> list[Message]:
        """What the policy gets to see: a message of role `tool` for each call."""

    def tools(self, view: PolicyView) -> Offer:
        """How the tools on offer are told."""
