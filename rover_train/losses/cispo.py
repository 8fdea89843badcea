"""CISPO (arXiv 2506.13585): the importance weight is clipped, not the update, so that no token loses its gradient."""

from __future__ import annotations

import torch

from rover_train.losses.ratio import Stats, log_ratio, ratio_stats


def cispo(
    logp: torch.Tensor,
    old_logp: torch.Tensor,
    advantage: torch.Tensor,
    *,
    clip_low: float = 1.0,
    clip_high: float = 0.2,
    mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, Stats]:
    """Loss of each token: -stopgrad(clip(rho, 1 - low, 1 + high)) A log p. `clip_low` 1 is no bound below."""
    ratio = log_ratio(logp, old_logp).exp().detach()
    cut = (ratio > 1 + clip_high) | (ratio < 1 - clip_low)
    loss = -ratio.clamp(1 - clip_low, 1 + clip_high) * advantage * logp
    if mask is not None:
        loss = torch.where(mask.bool(), loss, torch.zeros_like(loss))
    return loss, ratio_stats(ratio, cut, mask)
