"""Importance correction where the engine that sampled is not the one that trains: by token or by turn, truncated.

Never by whole sequence: over some hundred tokens the small differences of two engines multiply to ratios that say
nothing (0.3 to 1.6 at 125 tokens of bf16 against f32).
"""

from __future__ import annotations

from typing import Literal

import torch

from rover_train.losses.ratio import Stats, kept, log_ratio

Level = Literal["none", "token", "turn"]


def importance(
    old_logp: torch.Tensor,
    sampler_logp: torch.Tensor,
    level: Level = "token",
    *,
    turn: torch.Tensor | None = None,
    truncate: float = 2.0,
    mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, Stats]:
    """Weight of each token, without gradient: min(p_trainer / p_sampler, truncate), to multiply losses with.

    By token each ratio is its own; by turn all tokens of one share the product over the turn. `turn`, of the shape of
    `old_logp`, numbers turns over the whole tensor; a negative number is no turn and weighs 1.
    """
    difference = (old_logp - sampler_logp).detach()
    if mask is not None:
        difference = torch.where(mask.bool(), difference, torch.zeros_like(difference))
    if level == "none":
        difference = torch.zeros_like(difference)
    elif level == "turn":
        if turn is None:
            raise ValueError("importance by turn needs the turn of each token")
        difference = _sum_by_turn(difference, turn)
    ratio = log_ratio(difference, torch.zeros_like(difference)).exp()
    weight = ratio.clamp(max=truncate)
    seen, cut = kept(weight, mask), kept(ratio > truncate, mask)
    share = cut.float().mean().item() if cut.numel() else 0.0
    return weight, {"importance": seen.mean().item() if seen.numel() else 1.0, "importance_cut": share}


def _sum_by_turn(values: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    flat, number = values.flatten(), turn.flatten()
    known = number >= 0
    if not bool(known.any()):
        return torch.zeros_like(values)
    sums = torch.zeros(int(number.max()) + 1, dtype=flat.dtype, device=flat.device)
    sums.index_add_(0, number[known], flat[known])
    return torch.where(known, sums[number.clamp(min=0)], torch.zeros_like(flat)).reshape(values.shape)
