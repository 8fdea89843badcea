"""Forward passes over the ragged cache by any decoder-only model of transformers."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from rover_train.sample.cache import RaggedCache, additive_mask

#: so many tokens, padding counted, go through the model at once; bounds memory, not results
CHUNK_TOKENS = 4096


class Forward(Protocol):
    """Feeds tokens of lanes to a model and keeps their states."""

    cache: RaggedCache

    def refresh(self) -> None:
        """The weights may have changed; called when no lane lives."""

    def extend(self, rows: Sequence[int], chunks: Sequence[Sequence[int]], starts: Sequence[int]) -> Tensor:
        """Lane rows[i] reads chunks[i] from position starts[i] on: logits after the last token, (rows, vocab), f32."""

    def step(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        """Each of the first len(tokens) rows reads one token at its position: logits (rows, vocab), f32."""


class TransformersForward:
    """The model's own forward, with a 4D mask and position ids."""

    def __init__(self, model: Any) -> None:
        self.model = model.get_base_model() if hasattr(model, "get_base_model") else model  # LoRA layers stay in it
        self.cache = RaggedCache()
        taken = inspect.signature(self.model.forward).parameters
        self._cache_name = "cache" if "cache" in taken else "past_key_values"
        self._dtype = next(model.parameters()).dtype

    def refresh(self) -> None:
        """Nothing is derived from the weights."""

    def extend(self, rows: Sequence[int], chunks: Sequence[Sequence[int]], starts: Sequence[int]) -> Tensor:
        counts = [len(chunk) for chunk in chunks]
        plan = self.cache.plan_chunks(rows, starts, counts)
        ids = torch.zeros((len(rows), max(counts)), dtype=torch.long)
        ids[plan.row_of, plan.column_of] = torch.tensor([token for chunk in chunks for token in chunk])
        positions = torch.tensor(starts)[:, None] + torch.arange(max(counts))
        # padding asks for no position beyond its lane: tables of learned positions end somewhere
        ends = torch.tensor(starts) + torch.tensor(counts) - 1
        positions = torch.minimum(positions, ends[:, None])
        last = torch.tensor(counts) - 1
        kept, where = torch.unique(last, return_inverse=True)
        logits = self._run(ids, positions, plan.span, kept)
        return logits[torch.arange(len(rows)), where]

    def step(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        plan = self.cache.plan_step(positions, longest)
        return self._run(tokens[:, None], positions[:, None], plan.span, 1)[:, -1]

    def _run(self, ids: Tensor, positions: Tensor, span: int, kept: int | Tensor) -> Tensor:
        mask = additive_mask(positions, span, self._dtype)
        out = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=kept,
            **{self._cache_name: self.cache},
        )
        logits: Tensor = out.logits
        return logits.float()
