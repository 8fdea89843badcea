"""A document of rover's as the rollout again, to the last field. What it claims is for others to check by a replay."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from rover.policy.tokens import TokenLog, Told
from rover.port.atif import model as atif
from rover.port.atif.write import CALL, OWN, TURN
from rover.rollout.records import rollout_id
from rover_store.errors import PackageError
from rover_store.records import Call, Trajectory, Turn, TurnTokens


def own_of(document: atif.Document) -> dict[str, Any] | None:
    """What rover wrote into the document beside what ATIF has; None where another tool wrote it."""
    own = (document.extra or {}).get(OWN)
    return own if isinstance(own, dict) and "key" in own else None


def trajectory_of(document: atif.Document, file: str) -> Trajectory:
    """The rollout in a document of rover's. PackageError where it is not what rover writes."""
    own = own_of(document)
    if own is None:
        raise PackageError(file, f"extra.{OWN}.key", "is missing: this is no trajectory of rover's")
    log = TokenLog()
    turns = [_turn(step, number, log, file) for number, step in enumerate(document.steps[1:])]
    try:
        read = Trajectory.model_validate({**_own(own, "rollout", "turns"), "turns": turns})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PackageError(file, f"extra.{OWN}.{where}"[:200], " ".join(first["msg"].split())[:200]) from None
    if read.pruned:
        raise PackageError(file, f"extra.{OWN}.pruned", "a rollout without its turns is no trajectory")
    if own.get("rollout") != rollout_id(read.key):
        raise PackageError(file, f"extra.{OWN}.rollout", "is not the id that its key gives")
    if document.steps[0].source != "user":
        raise PackageError(file, "steps.0.source", "the first step is the instruction, of the user")
    return read


def _turn(step: atif.Step, number: int, log: TokenLog, file: str) -> Turn:
    where = f"steps.{number + 1}"
    if step.source != "agent" or not isinstance(step.message, str):
        raise PackageError(file, where, "is not a turn as rover writes it")
    own = _own((step.extra or {}).get(OWN), *TURN)
    results = step.observation.results if step.observation else ()
    if len(results) != len(step.tool_calls or ()):
        raise PackageError(file, f"{where}.observation", "has not one result for each call")
    calls = [_call(one, result, f"{where}.observation.results.{n}", file)
             for n, (one, result) in enumerate(zip(step.tool_calls or (), results, strict=True))]  # fmt: skip
    try:
        return Turn.model_validate(
            {**own, "index": number, "message": step.message, "calls": calls, "tokens": tokens_of(step.metrics, log)}
        )  # fmt: skip
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise PackageError(file, f"{where}.{field}"[:200], " ".join(first["msg"].split())[:200]) from None


def _call(call: atif.ToolCall, result: atif.Result, where: str, file: str) -> Call:
    if not isinstance(result.content, str) or result.source_call_id != call.tool_call_id:
        raise PackageError(file, where, "is not the text of its call")
    try:
        return Call.model_validate(
            {**_own((result.extra or {}).get(OWN), *CALL), "id": call.tool_call_id, "tool": call.function_name,
             "arguments": call.arguments, "output": result.content}
        )  # fmt: skip
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in ("extra", OWN, *first["loc"]))
        raise PackageError(file, f"{where}.{field}"[:200], " ".join(first["msg"].split())[:200]) from None


def _own(value: object, *others: str) -> dict[str, Any]:
    """What stands under `rover`, without what has another place."""
    return {k: v for k, v in value.items() if k not in others} if isinstance(value, dict) else {}


def tokens_of(metrics: atif.Metrics | None, log: TokenLog) -> TurnTokens | None:
    """The tokens of a step, where it tells them."""
    if metrics is None or not (metrics.completion_token_ids or metrics.logprobs or metrics.prompt_token_ids):
        return None
    return log.turn(
        Told(metrics.prompt_token_ids or (), metrics.completion_token_ids or (), metrics.logprobs or ())
    )
