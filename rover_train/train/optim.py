"""Optimisers behind one small face, for every trainer.

    optimiser = build(model, config.optim)
    optimiser.zero_grad(); loss.backward()
    done = optimiser.step(n, total)        # done.lr, done.grad_norm; clips; sets the rate of update n of total

The rate is a function of n alone, so nothing but the moments needs to be stored. A gradient that is not finite
leaves weights and moments as they are: `done.finite` is False.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import nn

from rover_train.train.schedule import factor
from rover_train.train.settings import OptimSettings


class Stepped(NamedTuple):
    """`lr`: AdamW's rate at this update. `grad_norm`: of all gradients, before clipping."""

    lr: float
    grad_norm: float
    finite: bool


class Optimiser:
    """One or two torch optimisers over the trainable parameters of a model."""

    def __init__(self, parts: list[torch.optim.Optimizer], settings: OptimSettings) -> None:
        self.parts = parts
        self.settings = settings
        self.parameters = [p for part in parts for group in part.param_groups for p in group["params"]]

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def step(self, step: int, total: int) -> Stepped:
        """Clip, set the rate of update `step` (from 0) of `total`, and update."""
        limit = self.settings.clip or math.inf
        norm = float(nn.utils.clip_grad_norm_(self.parameters, limit))
        share = factor(self.settings, step, total)
        if not math.isfinite(norm):
            return Stepped(self.settings.lr * share, norm, False)
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = group["peak"] * share
            part.step()
        return Stepped(self.settings.lr * share, norm, True)

    def state_dict(self) -> dict[str, Any]:
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up the moments; ValueError where they belong to other parameters."""
        if len(state["parts"]) != len(self.parts):
            raise ValueError("the optimiser's state is that of another optimiser")
        for part, saved in zip(self.parts, state["parts"], strict=True):
            part.load_state_dict(saved)


def build(model: nn.Module, settings: OptimSettings) -> Optimiser:
    """The optimiser of a model's trainable parameters, in the order of their names."""
    named = sorted((n, p) for n, p in model.named_parameters() if p.requires_grad)
    matrices = {n for n, p in named if _is_matrix(n, p)}
    parts: list[torch.optim.Optimizer] = []
    if settings.name == "muon" and matrices:
        group = {"params": [p for n, p in named if n in matrices], "peak": settings.muon_lr}
        parts.append(
            torch.optim.Muon(
                [group], lr=settings.muon_lr, weight_decay=settings.weight_decay, momentum=settings.momentum
            )
        )
        named = [(n, p) for n, p in named if n not in matrices]
    groups = [
        {"params": [p for _, p in named if (p.ndim >= 2) is decays], "peak": settings.lr,
         "weight_decay": settings.weight_decay if decays else 0.0}
        for decays in (True, False)
    ]  # fmt: skip
    groups = [g for g in groups if g["params"]]
    if groups:
        parts.append(torch.optim.AdamW(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps))
    return Optimiser(parts, settings)


#: names of matrices whose rows are tokens: Muon's orthogonal steps do not suit them
_PER_TOKEN = ("embed", "wte", "wpe", "lm_head")


def _is_matrix(name: str, parameter: nn.Parameter) -> bool:
    return parameter.ndim == 2 and not any(part in name for part in _PER_TOKEN)
