"""Supervised fine-tuning on verified demonstrations: loss on the tokens that the policy writes, and on no other.

    state = Sft(run, model, data, write_model=..., evaluate=...).train(stop)

A batch's loss is the sum over its tokens divided by how many there are, however many passes it is cut into. The
best checkpoint is chosen by validation packages alone: success of rollouts (`evaluate`), or the loss on their
demonstrations. A loss that is no number stops the run (NotFinite) before it touches the weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rover_store.errors import UsageError
from rover_train.rl.forward import chosen, log_probs, tensors
from rover_train.rl.packing import Piece, passes
from rover_train.rows import Row, WeightedRow
from rover_train.train import checkpoint, optim, rng
from rover_train.train.batches import Batches
from rover_train.train.checkpoint import Best, State
from rover_train.train.device import place
from rover_train.train.errors import NotFinite
from rover_train.train.run import Run

#: scores of the model as it is now: `success` and whatever else is worth a line
Evaluate = Callable[[int], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Data:
    """Rows of demonstrations, rendered. `evidence`: ids of the rollouts that the training rows come from."""

    train: Sequence[Row]
    validation: Sequence[Row] = ()
    evidence: tuple[str, ...] = ()


class Sft:
    """One run of fine-tuning. The model is changed in place."""

    def __init__(
        self, run: Run, model: nn.Module, data: Data, *, write_model: Callable[[Path], object],
        evaluate: Evaluate | None = None,
    ) -> None:  # fmt: skip
        """`write_model(folder)` writes the servable files. Without `evaluate` the loss chooses the checkpoint."""
        if not data.train:
            raise UsageError("nothing to train on: no verified demonstration of a training package")
        self.run, self.model, self.data = run, model, data
        self.write_model, self.evaluate = write_model, evaluate
        self.config = run.config
        rng.seed_all(self.config.seed, self.config.threads)
        self.placed = place(model, self.config.model)
        self.optimiser = optim.build(model, self.config.optim)
        sizes = [len(row.ids) for row in data.train]
        self.batches = Batches(sizes, self.config.sft.batch_size, self.config.seed)
        epochs = max(1, round(self.config.sft.epochs * self.batches.per_epoch))
        self.total = self.config.sft.steps or epochs
        self.step, self.stale, self.best = 0, 0, None if run.state is None else run.state.best
        self._saved = -1
        if run.state is not None:
            self._go_on(run.state)

    def _go_on(self, state: State) -> None:
        folder = self.run.checkpoint
        assert folder is not None
        checkpoint.restore(folder, self.model, self.optimiser)
        self.step = self._saved = state.step
        self.stale = int(state.position.get("stale", 0))

    # --- the loop --------------------------------------------------------------------------------------------

    def train(self, stop: Callable[[], bool] = lambda: False) -> State:
        """Train to the end, or until `stop()`: then the last state is saved too, and not `finished`."""
        state = self.run.state or self._state({}, finished=False)
        while not state.finished and not stop():
            row = self._update()
            self.step += 1
            if self.step % self.config.log.every == 0 or self.step == self.total:
                self.run.log.write({"kind": "train", "step": self.step, **row})
            scores, improved = self._evaluated()
            early = 0 < self.config.eval.patience <= self.stale and self.step < self.total
            if early:
                said = f"{self.stale} evaluations in a row were no better"
                self.run.log.write({"kind": "warning", "step": self.step, "what": "early stop", "text": said})
            finished = early or self.step >= self.total
            state = self._state(scores, finished)
            if finished or improved or self._due(self.config.checkpoint.every):
                self._save(state)
        if self._saved != self.step and self.step:
            self._save(state)
        return state

    def _update(self) -> dict[str, Any]:
        began = time.perf_counter()
        rows = [self.data.train[n] for n in self.batches.at(self.step)]
        self.model.train()
        self.optimiser.zero_grad()
        tokens = _written(rows)
        loss = 0.0
        for part in passes(_pieces(rows, tokens), self.config.sft.pass_tokens):
            value = self._loss(part)
            if not math.isfinite(value.item()):
                raise NotFinite("loss", self.step + 1, _packages([p.weighted.row for p in part]))
            value.backward()  # type: ignore[no-untyped-call]
            loss += value.item()
        done = self.optimiser.step(self.step, self.total)
        if not done.finite:
            raise NotFinite("gradient", self.step + 1, _packages(rows))
        seconds = time.perf_counter() - began
        read = sum(len(row.ids) for row in rows)
        return {
            "loss": loss, "lr": done.lr, "grad_norm": done.grad_norm, "rows": len(rows), "tokens": tokens,
            "epoch": round((self.step + 1) / self.batches.per_epoch, 4), "of": self.total,
            "time": {"seconds": round(seconds, 4), "tokens_s": round(read / seconds, 1)},
        }  # fmt: skip

    def _loss(self, part: Sequence[Piece]) -> torch.Tensor:
        """Share of the batch's loss: the advantage of every token is 1 over the batch's tokens."""
        batch = tensors(part, self.placed.device)
        with self.placed.autocast():
            found = chosen(log_probs(self.model, batch, 1.0), batch)
        return -(found * batch.advantage).sum()

    # --- evaluation and checkpoints --------------------------------------------------------------------------

    def _due(self, every: int) -> bool:
        return bool(every) and self.step % every == 0

    def _evaluated(self) -> tuple[dict[str, float], bool]:
        """Scores at this step (none where no evaluation is due) and whether they are the best so far."""
        if not (self._due(self.config.eval.every) or self.step >= self.total):
            return {}, False
        began = time.perf_counter()
        self.model.eval()
        scores: dict[str, float] = {}
        with rng.aside(), torch.no_grad():
            if self.data.validation:
                scores["loss"] = self.validation_loss()
            if self.evaluate is not None:
                scores.update(self.evaluate(self.step))
        seconds = round(time.perf_counter() - began, 4)
        better = self._is_best(scores)
        self.run.log.write(
            {"kind": "eval", "step": self.step, **scores, "best": better, "time": {"seconds": seconds}}
        )  # fmt: skip
        return scores, better

    def _is_best(self, scores: Mapping[str, float]) -> bool:
        if self.config.eval.select == "success" and "success" in scores:
            # equal success: the higher mean score is the better checkpoint
            score = scores["success"] + 1e-6 * scores.get("score", 0.0)
        elif "loss" in scores:
            score = -scores["loss"]
        else:
            return False
        if self.best is not None and not score > self.best.score:
            self.stale += 1
            return False
        self.best, self.stale = Best(step=self.step, score=score), 0
        return True

    def validation_loss(self) -> float:
        """Mean over the tokens of all validation rows."""
        rows = list(self.data.validation)
        pieces = _pieces(rows, _written(rows))
        return sum(self._loss(part).item() for part in passes(pieces, self.config.sft.pass_tokens))

    def _state(self, scores: Mapping[str, float], finished: bool) -> State:
        return self.run.state_at(
            self.step, position={"stale": self.stale}, evidence=self.data.evidence, scores=dict(scores),
            best=self.best, finished=finished,
        )  # fmt: skip

    def _save(self, state: State) -> None:
        self.run.save(state, self.model, self.optimiser, self.write_model)
        self._saved = self.step


def _written(rows: Sequence[Row]) -> int:
    """Tokens that the policy wrote; the first token of a row has nothing that foretells it."""
    return max(1, sum(sum(row.loss_mask[1:]) for row in rows))


def _pieces(rows: Sequence[Row], tokens: int) -> list[Piece]:
    return [Piece(WeightedRow(row, [mask / tokens for mask in row.loss_mask])) for row in rows]


def _packages(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(sorted({row.package or row.rollout or "?" for row in rows}))
