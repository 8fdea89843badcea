"""ATIF-v1.8 as its specification has it: fields, and the rules that no schema can say. Nothing of rover is in here.

A document of an older version (1.0 to 1.7) is one of this too. `parse` is bounded in size, depth and count, and
names file, field and reason; `dump` gives the same bytes for the same document, with each list of numbers on one line.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from rover_store.errors import PackageError
from rover_store.records import Part

VERSION = "ATIF-v1.8"
#: bounds on what is read
MOST_BYTES = 64 << 20
MOST_STEPS = 10_000
MOST_CALLS = 50_000

Extra = dict[str, Any] | None
_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_NUMBERS = re.compile(rf"\[\n\s*({_NUMBER}(?:,\n\s*{_NUMBER})*)\n\s*\]")

Version = Literal[
    "ATIF-v1.0", "ATIF-v1.1", "ATIF-v1.2", "ATIF-v1.3", "ATIF-v1.4", "ATIF-v1.5", "ATIF-v1.6", "ATIF-v1.7",
    "ATIF-v1.8",
]  # fmt: skip


class Agent(Part):
    """Who acted."""

    name: str
    version: str
    model_name: str | None = None
    tool_definitions: tuple[dict[str, Any], ...] | None = None
    extra: Extra = None


class Media(Part):
    """Where a picture or a sound lies."""

    media_type: str
    path: str
    duration_sec: Annotated[float, Field(ge=0)] | None = None


class ContentPart(Part):
    """A piece of a message that is not text alone."""

    type: Literal["text", "image", "audio"]
    text: str | None = None
    source: Media | None = None

    @model_validator(mode="after")
    def _fits(self) -> ContentPart:
        if (self.text is None) == (self.type == "text"):
            raise ValueError(f"a part of type {self.type} {'needs' if self.text is None else 'has no'} text")
        if (self.source is None) == (self.type != "text"):
            raise ValueError(f"a part of type {self.type} {'needs' if self.source is None else 'has no'} source")
        return self


Content = str | tuple[ContentPart, ...]


class ToolCall(Part):
    """What the agent asks for."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: Extra = None


class SubagentRef(Part):
    """Another trajectory that this one handed work to."""

    trajectory_id: str | None = None
    session_id: str | None = None
    trajectory_path: str | None = None
    extra: Extra = None

    @model_validator(mode="after")
    def _resolvable(self) -> SubagentRef:
        if self.trajectory_id is None and self.trajectory_path is None:
            raise ValueError("names neither a trajectory_id nor a trajectory_path")
        return self


class Result(Part):
    """What came of a call, or of something else that happened."""

    source_call_id: str | None = None
    content: Content | None = None
    subagent_trajectory_ref: tuple[SubagentRef, ...] | None = None
    extra: Extra = None


class Observation(Part):
    results: tuple[Result, ...]


class Metrics(Part):
    """What a turn of a model took, and its tokens."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    completion_token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    extra: Extra = None


class Step(Part):
    """One step: somebody says something; an agent may call tools and see what comes of it."""

    step_id: Annotated[int, Field(ge=1)]
    timestamp: str | None = None
    source: Literal["system", "user", "agent"]
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    message: Content
    reasoning_content: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: Annotated[int, Field(ge=0)] | None = None
    extra: Extra = None

    @field_validator("timestamp")
    @classmethod
    def _a_time(cls, value: str | None) -> str | None:
        if value is not None:
            datetime.fromisoformat(value.replace("Z", "+00:00"))
        return value

    @model_validator(mode="after")
    def _fits(self) -> Step:
        agents = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
        if self.source != "agent":
            _none_of(self, agents, f"a step of the {self.source} has no")
        elif self.llm_call_count == 0:
            _none_of(self, ("metrics", "reasoning_content"), "a step without a call of a model has no")
        known = {call.tool_call_id for call in self.tool_calls or ()}
        for number, result in enumerate(self.observation.results if self.observation else ()):
            if result.source_call_id is not None and result.source_call_id not in known:
                raise ValueError(f"observation.results.{number}.source_call_id is no tool_call_id of this step")
        return self


class FinalMetrics(Part):
    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: Annotated[int, Field(ge=0)] | None = None
    extra: Extra = None


class Document(Part):
    """A whole trajectory."""

    schema_version: Version = "ATIF-v1.8"
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: Agent
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=MOST_STEPS)]
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    extra: Extra = None
    subagent_trajectories: tuple[Document, ...] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Document:
        for number, step in enumerate(self.steps):
            if step.step_id != number + 1:
                raise ValueError(f"steps.{number}.step_id is {step.step_id}, not {number + 1}")
        if sum(len(step.tool_calls or ()) for step in self.steps) > MOST_CALLS:
            raise ValueError(f"more than {MOST_CALLS} calls")
        names = [one.trajectory_id for one in self.subagent_trajectories or ()]
        if None in names or len(set(names)) != len(names):
            raise ValueError("subagent_trajectories need a trajectory_id each, no two the same")
        return self


def _none_of(step: Step, names: tuple[str, ...], words: str) -> None:
    for name in names:
        if getattr(step, name) is not None:
            raise ValueError(f"{words} {name}")


# --- bytes -------------------------------------------------------------------------------------------------------
def dump(document: Document) -> bytes:
    """The document as JSON, absent fields left out."""
    text = json.dumps(
        document.model_dump(mode="json", exclude_none=True), indent=2, ensure_ascii=False, allow_nan=False
    )
    # a newline stands between values alone: within a text it is written \n
    return (_NUMBERS.sub(lambda found: f"[{', '.join(found[1].replace(',', ' ').split())}]", text) + "\n").encode()


def read(path: Path, name: str) -> Document:
    """The document in a file. PackageError: file, field, reason."""
    try:
        if not path.is_file():
            raise PackageError(name, "", "is not a plain file")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise PackageError(name, "", f"cannot be read: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise PackageError(name, "", f"is larger than {MOST_BYTES >> 20} MiB")
    return parse(data, name)


def parse(data: bytes, name: str) -> Document:
    """The document in some bytes. PackageError: file, field, reason."""
    from pydantic_core import from_json

    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise PackageError(name, "", f"not valid JSON: {_line(error)}") from None
    if not isinstance(value, dict):
        raise PackageError(name, "", "must be a JSON object")
    said = value.get("schema_version", VERSION)
    if not isinstance(said, str) or not re.fullmatch(r"ATIF-v1\.[0-8]", said):
        raise PackageError(name, "schema_version", f"{str(said)[:40]!r} is not a version of ATIF from 1.0 to 1.8")
    try:
        return Document.model_validate(value)
    except ValidationError as error:
        raise PackageError(name, *_first(error)) from None
    except RecursionError:
        raise PackageError(name, "", "is nested too deep") from None


def _first(error: ValidationError) -> tuple[str, str]:
    """Field and reason of the first fault; of the forms that a field may have, of the one that fits furthest."""
    found = error.errors(include_url=False)
    forms = [one for one in found if one["loc"][:-1] == found[0]["loc"][:-1] or found[0]["loc"][-1] == "str"]
    here = found[0]["loc"][:-1]
    best = max((one for one in forms if one["loc"][: len(here)] == here), key=lambda one: len(one["loc"]))
    named = [str(part) for part in best["loc"] if part != "str" and not str(part).startswith("tuple[")]
    return ".".join(named)[:200], _line(best["msg"]).removeprefix("Value error, ")


def _line(error: object) -> str:
    return " ".join(str(error).split())[:200]
