"""The config sections of RL: `rl` and `loss`. No torch: a config is read and checked without it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from rover_train.section import Section


class RlSettings(Section):
    """One step: `tasks` packages, `group` rollouts of each, then `epochs` x `minibatches` updates."""

    steps: int = Field(40, ge=1, le=10**9)
    """Steps of sampling and updating."""
    tasks: int = Field(8, ge=1, le=10**6)
    """Packages in a step; they come in turn, in an order drawn from the seed."""
    group: int = Field(8, ge=1, le=10**6)
    """Rollouts of each package in a step: the group that is compared. Credit needs at least 2."""
    epochs: int = Field(1, ge=1, le=10**6)
    """How often a step's rollouts are gone through."""
    minibatches: int = Field(2, ge=1, le=10**6)
    """Updates an epoch; a rollout is never cut over two of them."""
    pass_tokens: int = Field(2048, ge=1, le=10**9)
    """Most tokens of one forward pass, padding included; the gradients of a minibatch's passes add up."""
    temperature: float = Field(1.0, gt=0)
    """Of sampling in training."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Nucleus of sampling in training."""
    max_turn_tokens: int = Field(128, ge=1, le=10**9)
    """A turn is cut after so many tokens."""
    width: int = Field(64, ge=1, le=1024)
    """Rollouts that are played side by side."""
    retries: int = Field(2, ge=0)
    """Rounds of new attempts for rollouts that ended in infra_error or verifier_error."""
    keep: Literal["all", "samples", "none"] = "samples"
    """Which rollouts of training go to the store's evidence."""
    samples: int = Field(2, ge=0)
    """Rollouts of a step that are written, with their credit, to the run's folder `samples`."""
    tied_warning: int = Field(5, ge=1)
    """So many steps in a row with nothing but tied groups give a warning."""
    server: str = ""
    """URL of a vLLM server that generates; empty: the model in this process does."""
    server_model: str = ""
    """Name under which the server lists the model that training starts from."""
    server_folder: str = ""
    """A folder that this process and the server both see, for the adapter of each step; empty: in the run's."""
    teacher: str = ""
    """The model that on-policy distillation learns from; it has the same tokenizer."""


class LossSettings(Section):
    """What turns weighted advantages into a gradient."""

    kind: Literal["clip", "cispo"] = "clip"
    """PPO's clipped surrogate, or CISPO."""
    clip_low: float = Field(0.2, ge=0)
    """Ratios below 1 - clip_low are clipped."""
    clip_high: float = Field(0.2, ge=0)
    """Ratios above 1 + clip_high are clipped."""
    dual: float = Field(0.0, ge=0)
    """Dual clip: at a negative advantage the loss is bounded by this ratio, above 1; 0 for none."""
    kl: float = Field(0.0, ge=0)
    """Weight of KL3 to the model that training started from; 0 for none."""
    importance: Literal["none", "token", "turn"] = "token"
    """Correction where another engine sampled, by token or turn; of no effect where this process did."""
    truncate: float = Field(2.0, gt=0)
    """Importance weights are cut at this."""

    @field_validator("dual")
    @classmethod
    def _above_one(cls, dual: float) -> float:
        if 0 < dual <= 1:
            raise ValueError("should be above 1, or 0 for none")
        return dual
