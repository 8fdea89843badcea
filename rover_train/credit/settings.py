"""The config section `credit`: what the schemes take beside their name, which is the method's."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rover_train.section import Section


class CreditSettings(Section):
    """How graded rollouts become an advantage for each turn. A scheme reads what it knows and leaves the rest."""

    alpha: float = Field(4.0, ge=0)
    """Weight of a turn's progress credit (vtca)."""
    eta: float = Field(0.3, ge=0)
    """Weight of a turn's trace cost (vtca)."""
    keep: float = Field(0.5, ge=0.5, le=1)
    """Share of a positive increment that stays on the producing turn (vtca)."""
    transitive: bool = False
    """Prerequisites of prerequisites share too (vtca)."""
    centred: bool = False
    """Subtract the mean trace cost of the batch (vtca)."""
    trace_share: float = Field(0.1, ge=0, le=1)
    """Lambda: share of the trace score in the reward."""
    std: Literal["sample", "population"] = "sample"
    """Spread of a group: n - 1 or n."""
    eps: float = Field(1e-6, gt=0)
    """Added to the spread."""
    omega: float = Field(1.0, ge=0)
    """Weight of the step advantage (gigpo); 0 is its own ablation."""
    gamma: float = Field(1.0, ge=0, le=1)
    """Discount over turns (gigpo)."""
