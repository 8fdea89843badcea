"""One step's update of the weights from weighted rows: passes, a summed loss, clipping, the optimiser.

The advantage of a token carries its weight, so the loss is a plain sum; a minibatch of b of the step's B rollouts is
scaled by B / b, which makes it a mean over its own rollouts. A loss or gradient that is no number raises NotFinite
before the weights change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from rover_train.losses.cispo import cispo
from rover_train.losses.clip import clipped
from rover_train.losses.kl import entropy, kl3
from rover_train.rl.forward import Pass, chosen, log_probs, sampled, tensors
from rover_train.rl.packing import Piece, Rollout, minibatches, passes, silent
from rover_train.rl.schedule import number
from rover_train.rl.settings import LossSettings, RlSettings
from rover_train.train.device import Placed
from rover_train.train.errors import NotFinite
from rover_train.train.optim import Optimiser


@dataclass(slots=True)
class Sums:
    """Sums over tokens and updates of one step, and what becomes of them."""

    tokens: int = 0
    computed: int = 0
    updates: int = 0
    loss: float = 0.0
    norm: float = 0.0
    lr: float = 0.0
    by_token: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, total: float) -> None:
        self.by_token[name] = self.by_token.get(name, 0.0) + total

    def report(self) -> dict[str, float]:
        """Means over the tokens of all updates; `loss` and `grad_norm` over updates."""
        tokens, updates = max(1, self.tokens), max(1, self.updates)
        return {
            "loss": self.loss / updates,
            "grad_norm": self.norm / updates,
            "lr": self.lr,
            "updates": self.updates,
            "trained_tokens": self.tokens,
            "computed_tokens": self.computed,
            **{name: total / tokens for name, total in self.by_token.items()},
        }


class Updater:
    """Updates one model."""

    def __init__(
        self, model: Any, optimiser: Optimiser, loss: LossSettings, rl: RlSettings, *, seed: int, placed: Placed
    ) -> None:
        self.model = model
        self.optimiser = optimiser
        self.loss = loss
        self.rl = rl
        self.seed = seed
        self.placed = placed
        self.device = placed.device

    @property
    def total(self) -> int:
        """Updates of the whole run."""
        return self.rl.steps * self.rl.epochs * self.rl.minibatches

    def update(self, rollouts: Sequence[Rollout], step: int) -> dict[str, float]:
        """Go through the rollouts of a step `epochs` times. Rollouts without any advantage cost nothing."""
        sums = Sums()
        torch.manual_seed(number("update", self.seed, step) % 2**63)  # dropout of adapters: of the step alone
        self.model.train()
        for epoch in range(self.rl.epochs):
            dealt = minibatches(rollouts, self.rl.minibatches, number("minibatches", self.seed, step, epoch))
            for at, some in enumerate(dealt):
                scale = len(rollouts) / len(some)
                self._minibatch(some, scale, (step * self.rl.epochs + epoch) * self.rl.minibatches + at, step, sums)
        self.model.eval()
        return sums.report()

    def counts(self, rollout: Rollout) -> bool:
        """Whether a rollout has a gradient at all."""
        return bool(self.loss.kl) or not silent(rollout)

    def _minibatch(self, rollouts: Sequence[Rollout], scale: float, update: int, step: int, sums: Sums) -> None:
        pieces = [piece for rollout in rollouts if self.counts(rollout) for piece in rollout]
        if not pieces:
            return
        self.optimiser.zero_grad()
        whole = 0.0
        for some in passes(pieces, self.rl.pass_tokens):
            batch = tensors(some, self.device)
            loss = self._loss(batch, sums) * scale
            if not torch.isfinite(loss):
                raise NotFinite("loss", step + 1, _packages(pieces))
            loss.backward()  # type: ignore[no-untyped-call]
            whole += float(loss.detach())
            sums.computed += batch.ids.numel()
        done = self.optimiser.step(update, self.total)
        if not done.finite:
            raise NotFinite("gradient", step + 1, _packages(pieces))
        sums.updates += 1
        sums.loss += whole
        sums.norm += done.grad_norm
        sums.lr = done.lr

    def _loss(self, batch: Pass, sums: Sums) -> torch.Tensor:
        with self.placed.autocast():
            log_p = log_probs(self.model, batch, self.rl.temperature)
        log_chosen = chosen(log_p, batch)
        per_token, stats = self._surrogate(log_chosen, batch)
        with torch.no_grad():
            tokens = len(batch.target)
            sums.tokens += tokens
            sums.add("clip_share", stats["clip_share"] * tokens)
            sums.add("kl", stats["kl"] * tokens)
            sums.add("entropy", float(entropy(log_p).sum()))
        if self.loss.kl:
            found = kl3(log_chosen, batch.reference)
            per_token = per_token + self.loss.kl * batch.weight * found
            sums.add("kl_reference", float(found.detach().sum()))
        return per_token.sum()

    def _surrogate(self, log_p: torch.Tensor, batch: Pass) -> tuple[torch.Tensor, Mapping[str, float]]:
        s = self.loss
        if s.kind == "cispo":
            return cispo(log_p, batch.old, batch.advantage, clip_low=s.clip_low, clip_high=s.clip_high)
        bounds = {"clip_low": s.clip_low, "clip_high": s.clip_high, "dual": s.dual or None}
        return clipped(log_p, batch.old, batch.advantage, **bounds)  # type: ignore[arg-type]


@torch.no_grad()
def scored(
    model: Any, pieces: Sequence[Piece], temperature: float, tokens: int, device: Any = "cpu"
) -> list[list[float]]:
    """For each row the log-probability of each token under a model, 0.0 where nothing was sampled."""
    out: dict[int, list[float]] = {}
    numbered = {id(piece): n for n, piece in enumerate(pieces)}
    for some in passes(pieces, tokens):
        batch = tensors(some, device)
        found = iter(chosen(log_probs(model, batch, temperature), batch).tolist())
        for piece in some:
            values = [0.0] * piece.length
            for t in sampled(piece.weighted.row):
                values[t] = next(found)
            out[numbered[id(piece)]] = values
    return [out[n] for n in range(len(pieces))]


def _packages(pieces: Sequence[Piece]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(piece.weighted.row.package for piece in pieces))


def flat(rollouts: Sequence[Rollout]) -> Iterator[Piece]:
    for rollout in rollouts:
        yield from rollout
