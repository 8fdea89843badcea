"""The config sections of RL: `rl`, `loss` and `eval`. No torch: a config is read and checked without it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RlSettings(Section):
    """One step: `tasks` packages, `group` rollouts of each, then `epochs` x `minibatches` updates."""

    steps: int = Field(40, ge=1, description="Steps of sampling and updating.")
    tasks: int = Field(8, ge=1, description="Packages in a step; they come in turn, in an order drawn from the seed.")
    group: int = Field(8, ge=1, description="Rollouts of each package in a step: the group that is compared.")
    epochs: int = Field(1, ge=1, description="How often a step's rollouts are gone through.")
    minibatches: int = Field(2, ge=1, description="Updates an epoch; a rollout is never cut over two of them.")
    pass_tokens: int = Field(
        8192, ge=1, description="Most tokens of one forward pass, padding included; gradients of passes add up."
    )
    temperature: float = Field(1.0, gt=0, description="Of sampling in training.")
    top_p: float = Field(1.0, gt=0, le=1, description="Nucleus of sampling in training.")
    max_turn_tokens: int = Field(128, ge=1, description="A turn is cut after so many tokens.")
    width: int = Field(64, ge=1, description="Rollouts that are played side by side.")
    retries: int = Field(
        2, ge=0, description="Rounds of new attempts for rollouts that ended in infra_error or verifier_error."
    )
    keep: Literal["all", "samples", "none"] = Field(
        "samples", description="Which rollouts of training go to the store's evidence."
    )
    samples: int = Field(2, ge=0, description="Rollouts a step that are written, with their credit, to RUN/samples/.")
    tied_warning: int = Field(5, ge=1, description="So many steps in a row with nothing but tied groups give a warning.")
    server: str = Field("", description="URL of a vLLM server that generates; empty: the model in this process.")
    server_adapters: str = Field(
        "", description="Folder that this process and the server both see, for the adapter of each step."
    )
    teacher: str = Field("", description="Model that on-policy distillation (opd) learns from; same tokenizer.")
    filter_pilot: int = Field(
        0, ge=0, description="Pilot rollouts a package before RL; packages whose reward does not vary are left out."
    )


class LossSettings(Section):
    """What turns weighted advantages into a gradient."""

    kind: Literal["clip", "cispo"] = Field("clip", description="PPO's clipped surrogate, or CISPO.")
    clip_low: float = Field(0.2, ge=0, description="Ratios below 1 - clip_low are clipped.")
    clip_high: float = Field(0.2, ge=0, description="Ratios above 1 + clip_high are clipped.")
    dual: float = Field(0.0, ge=0, description="Dual clip: bound on the loss at negative advantages; 0: none.")
    kl: float = Field(0.0, ge=0, description="Weight of KL3 to the model that training started from; 0: none.")
    importance: Literal["none", "token", "turn"] = Field(
        "token", description="Correction where another engine sampled: weight by token or turn."
    )
    truncate: float = Field(2.0, gt=0, description="Importance weights are cut at this.")
    aggregation: Literal["turn", "trajectory", "token", "constant"] = Field(
        "turn", description="turn: mean over a turn's tokens, then turns, then rollouts."
    )


class EvalSettings(Section):
    """Evaluation during training, on validation packages."""

    every: int = Field(10, ge=0, description="Steps between evaluations; 0: only after the last step.")
    packages: int = Field(0, ge=0, description="At most so many validation packages; 0: all.")
    attempts: int = Field(1, ge=1, description="Rollouts of each package.")
    temperature: float = Field(0.0, ge=0, description="0: greedy.")
    patience: int = Field(0, ge=0, description="Stop after so many evaluations without a better one; 0: never.")
    seed: int = Field(1, description="Seed of the evaluation's rollouts.")
