"""What the credit schemes can be told: the `credit` section of a training config. No scheme reads all of it."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from rover_train.section import Section

Std = Literal["sample", "population"]
Aggregation = Literal["turn", "trajectory", "token", "constant"]


class CreditSettings(Section):
    """From graded rollouts to advantages. `lam` may be written `lambda`."""

    model_config = ConfigDict(populate_by_name=True)

    lam: float = Field(0.1, ge=0, le=1, alias="lambda")
    """Share of the trace score in the reward; the rest is the outcome's."""
    eps: float = Field(1e-6, ge=0)
    """Added to every standard deviation that divides."""
    std: Std = "sample"
    """Standard deviation with n - 1 (sample) or n (population)."""
    alpha: float = Field(4.0, ge=0)
    """vtca: weight of progress in a turn's advantage."""
    eta: float = Field(0.3, ge=0)
    """vtca: weight of a turn's trace cost."""
    keep: float = Field(0.5, ge=0.5, le=1)
    """vtca: share of a positive increment that its own turn keeps, where others led to it."""
    transitive: bool = False
    """vtca: prerequisites through any chain of use, not one hop."""
    centred: bool = False
    """vtca: the group's mean trace cost is subtracted, so that cost alone shifts no mean."""
    omega: float = Field(1.0, ge=0)
    """gigpo: weight of the step advantage; 0 leaves the trajectory's alone."""
    gamma: float = Field(0.95, ge=0, le=1)
    """gigpo: discount of a step's return."""
    norm: Literal["one", "std"] = "one"
    """gigpo: what divides, F: 1 or the standard deviation."""
    components: dict[str, float] | None = None
    """gdpo: weight of each reward component; absent: outcome 1 - lambda, trace lambda."""
    aggregation: Aggregation | None = None
    """How token losses are averaged; absent: by turn (dr-grpo: constant)."""
    length: int | None = Field(None, ge=1)
    """Aggregation constant: L_max, the tokens that each trajectory is divided by; absent: the window of `render`."""
