"""PPO's clipped surrogate (arXiv 1707.06347), with its dual clip (1912.09729).

The advantage carries the token's weight, so the sum over tokens is the loss. That is exact: each surrogate here is
positively homogeneous in the advantage.
"""

from __future__ import annotations

import torch

from rover_train.losses.ratio import Stats, log_ratio, ratio_stats


def clipped(
    logp: torch.Tensor,
    old_logp: torch.Tensor,
    advantage: torch.Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual: float | None = None,
    mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, Stats]:
    """Loss of each token, of the shape of `logp`: -min(rho A, clip(rho, 1 - low, 1 + high) A).

    With `dual` (above 1) the loss at a negative advantage is at most dual |A|. `mask` is for the stats and zeroes
    tokens that are off.
    """
    ratio = log_ratio(logp, old_logp.detach()).exp()
    surrogate = torch.minimum(ratio * advantage, ratio.clamp(1 - clip_low, 1 + clip_high) * advantage)
    cut = ((advantage > 0) & (ratio > 1 + clip_high)) | ((advantage < 0) & (ratio < 1 - clip_low))
    if dual:
        if dual <= 1:
            raise ValueError(f"dual clip is a ratio above 1, not {dual}")
        bounded = torch.maximum(surrogate, dual * advantage)
        surrogate = torch.where(advantage < 0, bounded, surrogate)
        cut = cut | ((advantage < 0) & (ratio > dual))
    loss = -surrogate if mask is None else torch.where(mask.bool(), -surrogate, torch.zeros_like(surrogate))
    return loss, ratio_stats(ratio, cut, mask)
