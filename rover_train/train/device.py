"""Where a model computes. On a CPU plain torch, which is exact to the bit; on an accelerator through accelerate."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import nn

from rover_store.errors import UsageError
from rover_train.train.settings import ModelSettings


class Placed(NamedTuple):
    """`autocast()` is the context of a forward pass; `mixed`: it computes in bf16."""

    device: torch.device
    autocast: Callable[[], AbstractContextManager[Any]]
    mixed: bool = False


def place(model: nn.Module, settings: ModelSettings) -> Placed:
    """Move a model to where the config wants it. UsageError where there is no such device."""
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise UsageError("model.device = cuda: this machine has no accelerator that torch can use")
    if settings.device == "cpu" or not torch.cuda.is_available():
        model.to("cpu")
        return Placed(torch.device("cpu"), nullcontext)
    from accelerate import Accelerator

    accelerator = Accelerator(mixed_precision="bf16" if settings.mixed else "no")
    model.to(accelerator.device)
    return Placed(accelerator.device, accelerator.autocast, settings.mixed)
