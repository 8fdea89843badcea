"""Ratios of probabilities of sampled tokens, and what is told of them. Tensors of any one shape, flat or (B, T)."""

from __future__ import annotations

import torch

#: log-ratios are cut at this: beyond it a ratio is no number to train on
MOST = 20.0

Stats = dict[str, float]


def log_ratio(logp: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """logp - other, cut at +-20."""
    return (logp - other).clamp(-MOST, MOST)


def kept(values: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """The values where the mask is on, flat and without gradient; all of them without a mask."""
    values = values.detach()
    return values.flatten() if mask is None else values[mask.bool()]


def ratio_stats(ratio: torch.Tensor, clipped: torch.Tensor, mask: torch.Tensor | None) -> Stats:
    """Mean and largest ratio, share of tokens that are clipped, and the mean KL3 of old to new policy.

    `kl` is E_old[rho - 1 - log rho], the estimate of KL(old || new).
    """
    rho, cut = kept(ratio, mask), kept(clipped, mask)
    if not rho.numel():
        return {"tokens": 0.0, "ratio": 1.0, "ratio_max": 1.0, "clip_share": 0.0, "kl": 0.0}
    return {
        "tokens": float(rho.numel()),
        "ratio": rho.mean().item(),
        "ratio_max": rho.max().item(),
        "clip_share": cut.float().mean().item(),
        "kl": (rho - 1 - rho.log()).mean().item(),
    }
