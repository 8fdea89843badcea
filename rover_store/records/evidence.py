"""What running leaves behind: trajectories and verdicts, keyed by content.

No record here holds a wall-clock time: the same inputs and seed give the same bytes.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from rover_store.ids import Digest, Name, ObjectId
from rover_store.records.base import Part, Record
from rover_store.records.components import Budget

Outcome = Literal["passed", "failed", "policy_error", "infra_error", "verifier_error"]


class Artifact(Part):
    """An exact version of a file that a call read or wrote. `blob` is absent where it was deleted."""

    path: str
    blob: ObjectId | None = None


class ToolCall(Part):
    """What a policy asks for."""

    id: str
    tool: str
    arguments: dict[str, Any] = {}


class Call(Part):
    """A tool call and what came of it."""

    id: str
    tool: str
    arguments: dict[str, Any] = {}
    status: Literal["ok", "error"] = "ok"
    output: str = ""
    truncated: bool = False
    reads: tuple[Artifact, ...] = ()
    writes: tuple[Artifact, ...] = ()


class Usage(Part):
    prompt_tokens: int = 0
    completion_tokens: int = 0


TokenId = Annotated[int, Field(ge=0)]


class TurnTokens(Part):
    """What a model read and wrote in one turn, in its own tokens. Recorded where it is asked for.

    The whole prompt is the first `kept` tokens of the last turn's prompt and completion, then `prompt`: a conversation
    that only grows is stored once, not once a turn.
    """

    kept: Annotated[int, Field(ge=0)] = 0
    prompt: tuple[TokenId, ...] = ()
    completion: tuple[TokenId, ...] = ()
    logprobs: Annotated[
        tuple[float, ...], Field(description="of the completion's tokens, as they were sampled; empty where unknown")
    ] = ()


class Turn(Part):
    """One turn: the policy's message, its calls, and the workspace tree after them."""

    index: int
    message: str = ""
    calls: tuple[Call, ...] = ()
    tree: Annotated[ObjectId, Field(description="workspace after the turn")]
    usage: Usage = Usage()
    tokens: TurnTokens | None = None


class ProgramExit(Part):
    """How an agent that is a program of its own ended, and the last that it printed."""

    exit_code: Annotated[int | None, Field(description="absent where it was ended from outside")] = None
    stdout: Annotated[str, Field(description="the end of it")] = ""
    stderr: Annotated[str, Field(description="the end of it")] = ""
    models: Annotated[tuple[str, ...], Field(description="names that it asked for; the configured one answered")] = ()
    refused: Annotated[int, Field(ge=0, description="requests to the model that were no sound requests")] = 0


class RolloutKey(Part):
    """Everything a rollout depends on. Its digest is the rollout's id."""

    context: ObjectId
    task: ObjectId
    harness: ObjectId
    policy: Annotated[str, Field(description="content id of the policy")]
    seed: int
    budget: Budget
    runtime: Annotated[str, Field(description="runtime id: sandbox kind, interpreter, library versions")]


class Trajectory(Record):
    """One rollout, whatever became of it."""

    kind: ClassVar[str] = "trajectory"

    key: RolloutKey
    package: Name
    start: Annotated[ObjectId, Field(description="workspace tree at the start")]
    turns: tuple[Turn, ...] = ()
    final_message: str = ""
    end: Literal["completed", "policy_error", "infra_error"] = "completed"
    error: Annotated[str, Field(description="why it ended early")] = ""
    usage: Usage = Usage()
    irregular: Annotated[
        dict[str, str] | None,
        Field(description="paths of the end state that no tree can keep (a FIFO, ...), with the reason"),
    ] = None
    pruned: Annotated[
        ObjectId | None,
        Field(description="tree of the end state, where turns and workspaces were dropped; key and verdicts stay"),
    ] = None
    purpose: Annotated[
        str | None,
        Field(description="what rover ran it for by itself (admission, replay, ...); absent where somebody asked"),
    ] = None
    program: Annotated[
        ProgramExit | None, Field(description="for an agent that is a program of its own; absent for rover's own loop")
    ] = None
    retried: Annotated[
        str | None, Field(description="why the try before this one was given up; absent where the first one counts")
    ] = None

    @property
    def end_tree(self) -> str:
        """Workspace tree at the end."""
        return self.pruned or (self.turns[-1].tree if self.turns else self.start)


class Score(Part):
    """What one criterion found."""

    criterion: str
    requirement: str
    score: Annotated[float, Field(ge=0, le=1)]
    weight: float
    critical: bool = False
    reason: Annotated[str, Field(description="why, in words a person understands")] = ""
    status: Literal["scored", "error"] = "scored"


class Verdict(Record):
    """A verifier's judgement of one rollout. `outcome` is a state, never a number alone."""

    kind: ClassVar[str] = "verdict"

    rollout: Digest
    verifier: ObjectId
    outcome: Outcome
    score: Annotated[float | None, Field(description="weighted share in [0, 1]; absent for errors")] = None
    gate: Annotated[int | None, Field(description="G: 0 if a critical criterion failed")] = None
    scores: tuple[Score, ...] = ()
    reason: str = ""
    runtime: str = ""
