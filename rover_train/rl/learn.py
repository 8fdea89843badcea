"""What stands between weighted rows and the update: old log-probabilities, importance weights, the reference.

Where another engine sampled (a server, other number types), the old log-probabilities are the trainer's own, computed
before the first update of the step, and each advantage is multiplied by the ratio of the two, truncated. Where this
process sampled in f32 the sampler's are the trainer's.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch

from rover_train.losses.importance import importance
from rover_train.rl.forward import sampled
from rover_train.rl.packing import Piece, Rollout
from rover_train.rl.update import Updater, flat, scored
from rover_train.rows import WeightedRow


class Reference:
    """Log-probabilities under the weights that training started from: the base below an adapter, or a copy."""

    def __init__(self, model: Any) -> None:
        self._adapted = hasattr(model, "disable_adapter")
        self._model = model if self._adapted else copy.deepcopy(model).eval().requires_grad_(False)

    def scored(self, pieces: Sequence[Piece], temperature: float, tokens: int, device: Any) -> list[list[float]]:
        with self._model.disable_adapter() if self._adapted else nullcontext():
            return scored(self._model, pieces, temperature, tokens, device)


class Learner:
    """Prepares a step's rollouts and updates on them."""

    def __init__(self, updater: Updater, *, exact: bool, reference: Reference | None) -> None:
        self.updater = updater
        self.exact = exact
        self.reference = reference

    def __call__(self, rollouts: Sequence[Rollout], step: int) -> dict[str, float]:
        said: dict[str, float] = {}
        if not self.exact:
            rollouts, said = self._corrected(rollouts)
        if self.reference is not None:
            rollouts = self._referred(rollouts, self.reference)
        return {**self.updater.update(rollouts, step), **said}

    def _corrected(self, rollouts: Sequence[Rollout]) -> tuple[list[Rollout], dict[str, float]]:
        told = [n for n, r in enumerate(rollouts) if self.updater.counts(r)]
        pieces = list(flat([rollouts[n] for n in told]))
        old = iter(self._scored(pieces))
        out: list[Rollout] = list(rollouts)
        weights: list[float] = []
        gaps: list[float] = []
        for n in told:
            mine = [(piece, next(old)) for piece in rollouts[n]]
            out[n] = [self._reweighted(piece, own, weights, gaps) for piece, own in mine]
        return out, {"importance": _mean(weights, 1.0), "sampler_gap": _mean(gaps, 0.0)}

    def _scored(self, pieces: Sequence[Piece]) -> list[list[float]]:
        updater = self.updater
        return scored(updater.model, pieces, updater.rl.temperature, updater.rl.pass_tokens, updater.device)

    def _reweighted(self, piece: Piece, own: list[float], weights: list[float], gaps: list[float]) -> Piece:
        """The row with the trainer's log-probabilities as the old ones, and its advantages corrected."""
        row, at = piece.weighted.row, sampled(piece.weighted.row)
        mine = torch.tensor([own[t] for t in at])
        theirs = torch.tensor([row.logprobs[t] for t in at])
        turns = torch.tensor([row.turn_id[t] for t in at])
        loss = self.updater.loss
        weight, _ = importance(mine, theirs, loss.importance, turn=turns, truncate=loss.truncate)
        found = weight.tolist()
        advantage = list(piece.weighted.advantage)
        for t, w in zip(at, found, strict=True):
            advantage[t] *= w
        weights += found
        gaps += (mine - theirs).abs().tolist()
        return piece._replace(weighted=WeightedRow(replace(row, logprobs=own), advantage))

    def _referred(self, rollouts: Sequence[Rollout], reference: Reference) -> list[Rollout]:
        updater = self.updater
        pieces = list(flat(rollouts))
        found = iter(reference.scored(pieces, updater.rl.temperature, updater.rl.pass_tokens, updater.device))
        return [[piece._replace(reference=next(found)) for piece in rollout] for rollout in rollouts]


def _mean(values: Sequence[float], empty: float) -> float:
    return sum(values) / len(values) if values else empty
