"""Reading what a server says it sampled. Strict: what is trained on must be what a model can have written."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

#: no sampler ever draws a token this improbable, and the ratio of two such overflows
LEAST_LOGPROB = -80.0
#: what rounding makes of a probability of 1
_ROUNDED = 1e-3


class NotSampled(Exception):
    """The answer is not what was asked for; the message says where."""

    def __init__(self, problem: str, *, hint: str = "") -> None:
        super().__init__(problem)
        self.hint = hint


def sampled(value: Any, limit: int, stops: Collection[int], vocabulary: int) -> tuple[list[int], list[float]]:
    """Ids and log-probabilities of a turn of at most `limit` tokens that the first of `stops` ends."""
    choices = value.get("choices") if isinstance(value, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    told = choice.get("logprobs") if isinstance(choice, dict) else None
    ids = choice.get("token_ids") if isinstance(choice, dict) else None
    logprobs = told.get("token_logprobs") if isinstance(told, dict) else None
    if not isinstance(ids, list) or not isinstance(logprobs, list):
        where = "token_ids" if not isinstance(ids, list) else "logprobs.token_logprobs"
        raise NotSampled(f"choices.0.{where} is no list", hint="the server must know return_token_ids, as vLLM does")
    if not ids or len(ids) != len(logprobs):
        raise NotSampled(f"{len(ids)} tokens and {len(logprobs)} log-probabilities")
    if len(ids) > limit:
        raise NotSampled(f"{len(ids)} tokens where {limit} were the most")
    for at, token in enumerate(ids):
        if type(token) is not int or not 0 <= token < vocabulary:
            raise NotSampled(f"token {at} is {_shown(token)}, and the vocabulary has {vocabulary}")
    for at, logprob in enumerate(logprobs):
        # whole numbers are compared as they are: a large one is no float; NaN is in no range
        if type(logprob) not in (int, float) or not LEAST_LOGPROB <= logprob <= _ROUNDED:
            raise NotSampled(f"log-probability {at} is {_shown(logprob)}")
    end = next((at for at, token in enumerate(ids) if token in stops), None)
    if end is None and len(ids) < limit:
        raise NotSampled(f"{len(ids)} tokens, and none of them ends the turn")
    if end is not None and end + 1 < len(ids):
        raise NotSampled(f"token {end} ends the turn, and {len(ids) - 1 - end} follow")
    return list(ids), [min(float(p), 0.0) for p in logprobs]


def _shown(value: Any) -> str:
    if isinstance(value, int | float | None):
        text = repr(value)
        return text if len(text) <= 40 else f"{text[:20]}... of {len(text)} digits"
    return f"a {type(value).__name__}"
