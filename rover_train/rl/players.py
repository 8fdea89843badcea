"""Who generates in training: the model in this process, or a vLLM server that gets each step's adapter."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from rover.policy.protocol import Policy
from rover_train.models import Loaded, save_adapter, weights_id
from rover_train.render import Renderer
from rover_train.sample.policy import Actor, ModelPolicy
from rover_train.sample.sampler import Sampler
from rover_train.sample.vllm import VllmSampler


class Player(Protocol):
    """Gives a policy that plays with the weights of now."""

    #: whether its log-probabilities are the trainer's own
    exact: bool

    def ready(self, step: int) -> tuple[Policy, Actor]:
        """The policy and what serves it, for the weights as they are."""

    def done(self) -> None:
        """The rollouts are over; the weights may change."""

    def close(self) -> None:
        """The run is over."""


class OwnPlayer:
    """The trainer's own model generates."""

    def __init__(
        self, loaded: Loaded, renderer: Renderer, *, temperature: float, top_p: float = 1.0, max_turn_tokens: int,
        mixed: bool = False,
    ) -> None:  # fmt: skip
        """`mixed`: the trainer computes in bf16, and so not as this player does."""
        self.loaded = loaded
        self.sampler = Sampler(
            loaded.model, renderer, temperature=temperature, top_p=top_p, max_turn_tokens=max_turn_tokens
        )
        self.renderer = renderer
        dtype = str(next(iter(loaded.model.parameters())).dtype)
        # under a nucleus too: what is recorded are the log-probabilities before the cut
        self.exact = dtype == "torch.float32" and not mixed

    def ready(self, step: int) -> tuple[Policy, Actor]:
        # a fresh cache: a step may not depend on what was played before it
        self.sampler.release()
        return ModelPolicy(self.sampler, policy_id(self.loaded, self.renderer, self.sampler)), self.sampler

    def done(self) -> None:
        self.sampler.release()

    def close(self) -> None:
        self.sampler.release()


class ServedPlayer:
    """A server generates, with the adapter of each step loaded under a name of its own."""

    exact = False

    def __init__(self, loaded: Loaded, sampler: VllmSampler, folder: Path, *, own: bool = False) -> None:
        """`own`: the folder is the run's, so it goes when the run is over; a folder that a person named stays."""
        self.loaded = loaded
        self.sampler = sampler
        self.folder = folder
        self.own = own
        self._last: Path | None = None
        sampler.check()

    def ready(self, step: int) -> tuple[Policy, Actor]:
        place = self.folder / f"adapter-{step:06d}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        save_adapter(self.loaded, place)
        self.sampler.load_adapter(place.absolute())
        if self._last is not None and self._last != place:
            shutil.rmtree(self._last, ignore_errors=True)
        self._last = place
        return ModelPolicy(self.sampler, policy_id(self.loaded, self.sampler.renderer, self.sampler)), self.sampler

    def done(self) -> None:
        self.sampler.release()

    def close(self) -> None:
        self.sampler.close()
        if self._last is not None:
            shutil.rmtree(self._last, ignore_errors=True)
        if not self.own:
            return
        for place in self.folder.glob("adapter-*"):  # of a process that was killed
            shutil.rmtree(place, ignore_errors=True)
        with suppress(OSError):  # it may not be there, or hold what is not ours
            self.folder.rmdir()


def policy_id(loaded: Loaded, renderer: Renderer, sampler: Any) -> str:
    """Names the weights, the rendering and the sampling: equal ids act equally, wherever the model lies."""
    return f"hf:{weights_id(loaded.model)[:16]}:{sampler.sampling.name}:{renderer.id}"
