"""On-policy distillation: the student plays, and at every token that it wrote its distribution is drawn to a teacher's.

The reverse KL is exact over the vocabulary, so no reward and no group is needed; success is only told. Both models
read the same ids, which wants one tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rover_store.errors import UsageError
from rover_train import models
from rover_train.config import Config
from rover_train.credit.protocol import Credit, Group
from rover_train.credit.settings import Aggregation
from rover_train.credit.weights import token_weights
from rover_train.losses.distil import reverse_kl
from rover_train.losses.kl import entropy
from rover_train.rl.forward import Pass, log_probs
from rover_train.rl.groups import TaskGroup
from rover_train.rl.packing import Piece, Rollout
from rover_train.rl.step import Rows
from rover_train.rl.update import Sums, Updater
from rover_train.rows import WeightedRow


class Distiller(Updater):
    """An update whose loss is the weighted reverse KL to a teacher."""

    def __init__(self, teacher: Any, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.teacher = teacher.to(self.device).eval().requires_grad_(False)

    def counts(self, rollout: Rollout) -> bool:
        return any(any(piece.weights) for piece in rollout)

    def _loss(self, batch: Pass, sums: Sums) -> torch.Tensor:
        with self.placed.autocast():
            log_p = log_probs(self.model, batch, 1.0)
            with torch.no_grad():
                wanted = log_probs(self.teacher, batch, 1.0)
        per_token, stats = reverse_kl(log_p, wanted)
        with torch.no_grad():
            tokens = len(batch.target)
            sums.tokens += tokens
            sums.add("kl_teacher", stats["kl_teacher"] * tokens)
            sums.add("entropy", float(entropy(log_p).sum()))
        return (per_token * batch.weight).sum()


class NoCredit:
    """Rows with the weights of their tokens, and no advantage."""

    def __init__(self, config: Config) -> None:
        self.aggregation: Aggregation = config.credit.aggregation or "turn"
        self.length = config.credit.length or config.render.window

    def of(self, groups: Sequence[TaskGroup], rows: Rows) -> tuple[list[Group], list[Credit]]:
        return [], []

    def pieces(self, credits: Sequence[Credit], rows: Rows) -> list[Rollout]:
        rollouts = [some for group in rows for some in group]
        weights = token_weights(rollouts, self.aggregation, length=self.length)
        return [
            [Piece(WeightedRow(row, [0.0] * len(row.ids)), w) for row, w in zip(some, of_rows, strict=True)]
            for some, of_rows in zip(rollouts, weights, strict=True)
        ]


def teacher_of(config: Config, student: models.Loaded) -> Any:
    """The teacher's model. UsageError where it does not read the student's ids as the student does."""
    teacher = models.load(config.rl.teacher, dtype=config.model.dtype)
    if teacher.tokenizer.get_vocab() != student.tokenizer.get_vocab():
        raise UsageError(
            f"teacher {config.rl.teacher!r}: its vocabulary is not the student's",
            hint="distillation over the vocabulary wants two models of one tokenizer",
        )
    wide, own = (m.get_output_embeddings().weight.shape[0] for m in (teacher.model, student.model))
    if wide != own:
        raise UsageError(f"teacher {config.rl.teacher!r}: it writes {wide} ids, the student {own}")
    return teacher.model
