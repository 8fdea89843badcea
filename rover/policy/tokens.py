"""The tokens of a turn, as a server or a model tells them: read strictly, stored once, and put together again.

    told(value)          what a chat completion says of its tokens (vLLM with return_token_ids, llama.cpp, logprobs)
    TokenLog             one conversation: each turn's record, whose prompt is told apart from what came before
    whole_prompts(turns) the whole prompt of every turn of a recorded rollout
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rover_store.records import Turn, TurnTokens

#: no vocabulary is larger
_MOST_ID = 1 << 31


@dataclass(frozen=True, slots=True)
class Told:
    """Tokens of one turn. `prompt` is empty where it is unknown, `completion` too; `logprobs` are of the completion."""

    prompt: tuple[int, ...] = ()
    completion: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()


class TokenLog:
    """Makes the records of one conversation, turn by turn."""

    def __init__(self) -> None:
        self._before: list[int] = []

    def turn(self, told: Told) -> TurnTokens:
        """The record of the next turn."""
        kept = _shared(self._before, told.prompt)
        self._before = [*told.prompt, *told.completion]
        return TurnTokens(kept=kept, prompt=told.prompt[kept:], completion=told.completion, logprobs=told.logprobs)


def whole_prompts(turns: Iterable[Turn]) -> list[tuple[int, ...]]:
    """The prompt of every turn; empty where none is recorded."""
    out: list[tuple[int, ...]] = []
    before: tuple[int, ...] = ()
    for turn in turns:
        tokens = turn.tokens
        known = tokens is not None and tokens.kept <= len(before)  # a record may say anything
        prompt = before[: tokens.kept] + tokens.prompt if tokens is not None and known else ()
        out.append(prompt)
        before = prompt + tokens.completion if tokens is not None else ()
    return out


def _shared(before: Sequence[int], prompt: Sequence[int]) -> int:
    """How many tokens both begin with."""
    most = min(len(before), len(prompt))
    if tuple(before[:most]) == tuple(prompt[:most]):
        return most
    return next(at for at in range(most) if before[at] != prompt[at])


def told(value: Any) -> Told | None:
    """What the parsed body of a chat completion says; None where it says nothing that a model can have written."""
    choice = value["choices"][0]
    prompt = _ids(value.get("prompt_token_ids"))
    completion = _ids(choice.get("token_ids"))
    said = choice.get("logprobs")
    content = said.get("content") if isinstance(said, dict) else None
    steps = content if isinstance(content, list) and all(isinstance(one, dict) for one in content) else []
    logprobs = _logprobs([one.get("logprob") for one in steps])
    if not completion:
        completion = _ids([one.get("id") for one in steps])  # llama.cpp
    if completion and len(logprobs) != len(completion):
        logprobs = ()
    return Told(prompt, completion, logprobs) if completion or logprobs else None


def _ids(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(one) is int and 0 <= one < _MOST_ID for one in value):
        return ()
    return tuple(value)


def _logprobs(values: list[Any]) -> tuple[float, ...]:
    """All of them, or none."""
    sound = all(type(one) in (int, float) and math.isfinite(one) and one <= 1e-3 for one in values)
    return tuple(min(float(one), 0.0) for one in values) if sound else ()
