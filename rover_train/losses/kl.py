"""KL to a reference policy from sampled tokens, and entropy. They have no advantage to carry a weight: give it."""

from __future__ import annotations

import torch

from rover_train.losses.ratio import Stats, kept, log_ratio


def kl3(logp: torch.Tensor, ref_logp: torch.Tensor) -> torch.Tensor:
    """KL3 of each token: e^d - d - 1 with d = log p_ref - log p; never negative."""
    d = log_ratio(ref_logp.detach(), logp)
    return d.exp() - d - 1


def kl_to_reference(
    logp: torch.Tensor, ref_logp: torch.Tensor, weight: torch.Tensor, *, mask: torch.Tensor | None = None
) -> tuple[torch.Tensor, Stats]:
    """Loss of each token: weight x KL3. `weight`: token weights (`credit.token_weights`) times the coefficient."""
    found = kl3(logp, ref_logp)
    seen = kept(found, mask)
    loss = found * weight
    if mask is not None:
        loss = torch.where(mask.bool(), loss, torch.zeros_like(loss))
    return loss, {"kl_ref": seen.mean().item() if seen.numel() else 0.0}


def entropy(log_p: torch.Tensor) -> torch.Tensor:
    """Entropy in nats over the last dimension, of log-probabilities. Reported, not trained on."""
    return -(log_p.exp() * log_p.masked_fill(log_p == -torch.inf, 0.0)).sum(-1)
