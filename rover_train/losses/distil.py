"""On-policy distillation: reverse KL, student to teacher, at the tokens that the student itself sampled.

Exact over the vocabulary where both distributions fit in memory; from the sampled tokens alone where they do not.
"""

from __future__ import annotations

import torch

from rover_train.losses.ratio import Stats, kept


def reverse_kl(
    log_p: torch.Tensor, teacher_log_p: torch.Tensor, *, mask: torch.Tensor | None = None
) -> tuple[torch.Tensor, Stats]:
    """Loss of each position: sum over v of p(v) (log p(v) - log q(v)). Log-probabilities of shape (..., V)."""
    p = log_p.exp()
    difference = (log_p - teacher_log_p.detach()).masked_fill(p == 0, 0.0)
    loss = (p * difference).sum(-1)
    return _masked(loss, mask), {"kl_teacher": _mean(loss, mask)}


def sampled_reverse_kl(
    logp: torch.Tensor, teacher_logp: torch.Tensor, *, mask: torch.Tensor | None = None
) -> tuple[torch.Tensor, Stats]:
    """Loss of each token that was sampled from p, unbiased in value and gradient.

    Its value is log p - log q, the plain estimate of the KL; its gradient is (log p - log q) times that of log p,
    whose expectation is the gradient of the KL.
    """
    difference = (logp - teacher_logp).detach()
    loss = difference * (logp - logp.detach() + 1)
    return _masked(loss, mask), {"kl_teacher": _mean(difference, mask)}


def sampled_advantage(old_logp: torch.Tensor, teacher_logp: torch.Tensor) -> torch.Tensor:
    """The same as an advantage, log q - log p_old, for a clipped surrogate over several updates."""
    return (teacher_logp - old_logp).detach()


def _masked(loss: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    return loss if mask is None else torch.where(mask.bool(), loss, torch.zeros_like(loss))


def _mean(values: torch.Tensor, mask: torch.Tensor | None) -> float:
    seen = kept(values, mask)
    return float(seen.mean().item()) if seen.numel() else 0.0
