"""From logits to tokens, one for each lane, and the log-probabilities that they were drawn with."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rover_train.sample.settings import Sampling


def draw(logits: Tensor, uniforms: Sequence[float], sampling: Sampling) -> tuple[list[int], list[float]]:
    """One token for each row of `logits` (rows, vocab), by the inverse of the distribution function at `uniforms`.

    Log-probabilities are those of softmax(logits / temperature), before any cut by top_p, as a trainer recomputes
    them. Greedy: the first of the likeliest tokens, with its log-probability at temperature 1.
    """
    greedy = sampling.temperature == 0.0
    logits = logits if greedy or sampling.temperature == 1.0 else logits / sampling.temperature
    logprobs = torch.log_softmax(logits, dim=-1)
    if greedy:
        chosen = logprobs.argmax(dim=-1, keepdim=True)
    else:
        points = torch.tensor(uniforms, dtype=torch.float64, device=logits.device)
        chosen = _inverse(logprobs, points, sampling.top_p)
    return chosen[:, 0].tolist(), logprobs.gather(1, chosen)[:, 0].tolist()


def _inverse(logprobs: Tensor, uniforms: Tensor, top_p: float) -> Tensor:
    probs = logprobs.exp()
    if top_p < 1.0:
        probs = _nucleus(probs, top_p)
    below = probs.cumsum(dim=-1, dtype=torch.float64)
    point = uniforms[:, None] * below[:, -1:]
    # the first token whose distribution function exceeds the point: one of probability 0 is never it
    return torch.searchsorted(below, point, right=True).clamp_(max=probs.shape[1] - 1)


def _nucleus(probs: Tensor, top_p: float) -> Tensor:
    """The rest set to 0; the likeliest token always stays."""
    ordered, order = probs.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(dim=-1, dtype=torch.float64) - ordered
    ordered = ordered.masked_fill(before >= top_p, 0.0)
    return torch.zeros_like(probs).scatter_(1, order, ordered)
