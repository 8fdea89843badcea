"""Sections of the config that belong to training itself. No torch here."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from rover_train.credit import registry
from rover_train.section import Section


def _known(name: str) -> str:
    if name not in ("sft", "opd", *registry.names()):
        raise ValueError(f"no such method; there are sft, opd, {', '.join(registry.names())}")
    return name


#: sft, opd, or a credit scheme: one of ours, or one that is installed
Method = Annotated[str, AfterValidator(_known)]


class LoraSettings(Section):
    """Low-rank adapters of peft."""

    rank: int = Field(32, ge=1, le=10**6)
    """Rank of the adapters."""
    scaling: float = Field(64.0, gt=0)
    """peft's `lora_alpha`: the adapter's output is multiplied by scaling / rank."""
    dropout: float = Field(0.05, ge=0, lt=1)
    """Dropout before the adapters."""
    targets: tuple[str, ...] = ()
    """Names of the modules to adapt; empty: all linear layers but the output."""


class ModelSettings(Section):
    """Which model is trained, and how it is held."""

    spec: str = ""
    """A folder that transformers loads, a checkpoint or run of ours, FILE.gguf, `smollm2`, or `small:FOLDER`."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the weights. bfloat16 is for accelerators: on most CPUs it is many times slower."""
    mixed: bool = False
    """On an accelerator, compute in bfloat16 while the weights stay float32. Of no effect on a CPU."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to train; `auto` takes an accelerator where there is one."""
    lora: LoraSettings | None = None
    """Train adapters alone. Absent: all weights are trained. `--set model.lora=true` takes the defaults."""


class DataSettings(Section):
    """Which packages of the revision, and how they are split."""

    pattern: str = "*"
    """Glob on the names of packages."""
    tags: tuple[str, ...] = ()
    """Only packages with these tags; those with one key before the colon are alternatives, the rest are all needed."""
    split: str = ""
    """A file with a split to use (`rover split`), narrowed to the pattern and tags above; empty: one is made."""
    shares: tuple[float, float, float] = (0.8, 0.1, 0.1)
    """Shares of train, validation and held-out; whole workspaces go to one of them."""
    split_seed: int = 0
    """Seed of the split, apart from the seed of training: runs to compare share it."""


class OptimSettings(Section):
    """The optimiser, its schedule, and clipping."""

    name: Literal["adamw", "muon"] = "adamw"
    """`muon` takes the matrices of the layers; embeddings, norms, biases and the output stay with AdamW."""
    lr: float = Field(2e-4, gt=0)
    """Learning rate of AdamW."""
    muon_lr: float = Field(0.02, gt=0)
    """Learning rate of Muon, for matrices."""
    momentum: float = Field(0.95, ge=0, lt=1)
    """Momentum of Muon."""
    betas: tuple[float, float] = (0.9, 0.99)
    """Decay of AdamW's first and second moments."""
    eps: float = Field(1e-8, gt=0)
    """AdamW's epsilon."""
    weight_decay: float = Field(0.0, ge=0)
    """Decoupled decay of matrices; norms and biases never decay."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the rate goes on behind the warm-up: to `floor` of its peak at the last step, or level."""
    warmup: float = Field(0.0, ge=0)
    """Steps of linear warm-up; below 1 a share of all steps."""
    floor: float = Field(0.0, ge=0, le=1)
    """Share of the peak rate that linear and cosine end at."""
    clip: float = Field(1.0, ge=0)
    """Norm that gradients are clipped to; 0 for none."""

    @field_validator("betas")
    @classmethod
    def _decays(cls, betas: tuple[float, float]) -> tuple[float, float]:
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError("both should be at least 0 and below 1")
        return betas


class SftSettings(Section):
    """Supervised fine-tuning on verified demonstrations."""

    epochs: float = Field(1.0, gt=0)
    """Passes over the demonstrations, where `steps` is 0."""
    steps: int = Field(0, ge=0, le=10**9)
    """Updates in all; 0: as many as `epochs` gives."""
    batch_size: int = Field(8, ge=1, le=10**6)
    """Rows in one update. Rows are padded at the right, not packed."""
    pass_tokens: int = Field(8192, ge=1, le=10**9)
    """Most tokens of one forward pass, padding included; the gradients of a batch's passes add up (accumulation)."""


class EvalSettings(Section):
    """Evaluation during training, on the packages of the validation share alone."""

    every: int = Field(10, ge=0)
    """Steps between evaluations; 0: at the end alone."""
    select: Literal["success", "loss"] = "success"
    """What picks the best checkpoint: `success` of real rollouts, or (sft alone) the `loss` on validation
    demonstrations, which plays no rollouts."""
    patience: int = Field(0, ge=0)
    """Stop early behind so many evaluations without a better one; 0: never."""
    packages: int = Field(0, ge=0)
    """Roll out on at most so many validation packages; 0 for all."""
    attempts: int = Field(1, ge=1, le=10**6)
    """Rollouts of each package."""
    temperature: float = Field(0.0, ge=0)
    """Sampling temperature of these rollouts; 0 is greedy."""
    seed: int = 1
    """Seed of these rollouts."""


class LogSettings(Section):
    """What a run tells. Never part of a config's identity."""

    trackers: tuple[Literal["tensorboard", "trackio"], ...] = ()
    """Also write through these libraries, into the run's folder. They must be installed."""
    every: int = Field(1, ge=1)
    """Steps between lines of the log."""


class CheckpointSettings(Section):
    """What is kept on disk. Never part of a config's identity."""

    every: int = Field(50, ge=0)
    """Steps between checkpoints; 0: at the end alone."""
    keep_last: int = Field(2, ge=1)
    """How many of the latest are kept, beside the best."""
