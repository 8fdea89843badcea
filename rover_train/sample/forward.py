"""Forward passes over the ragged cache by any decoder-only model of transformers."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from rover_train.sample.cache import RaggedCache, additive_mask

#: so many tokens, padding counted, go through the model at once, and so many of one lane; this bounds memory
PASS = 2048
PIECE = 512


class Forward(Protocol):
    """Feeds tokens of lanes to a model and keeps their states."""

    cache: RaggedCache

    def refresh(self) -> None:
        """The weights may have changed; called when no lane lives."""

    def extend(self, rows: Sequence[int], chunks: Sequence[Sequence[int]], starts: Sequence[int]) -> Tensor:
        """Lane rows[i] reads chunks[i] from position starts[i] on: logits after the last token, (rows, vocab), f32."""

    def step(self, tokens: Sequence[int], positions: Sequence[int]) -> Tensor:
        """Each of the first len(tokens) rows reads one token at its position: logits (rows, vocab), f32."""


class TransformersForward:
    """The model's own forward, with a 4D mask and position ids."""

    def __init__(self, model: Any) -> None:
        self.model = model.get_base_model() if hasattr(model, "get_base_model") else model  # LoRA layers stay in it
        first = next(model.parameters())
        self.cache = RaggedCache(first.device)
        self._dtype = first.dtype
        taken = inspect.signature(self.model.forward).parameters
        self._cache_name = "cache" if "cache" in taken else "past_key_values"

    def refresh(self) -> None:
        """Nothing is derived from the weights."""

    def extend(self, rows: Sequence[int], chunks: Sequence[Sequence[int]], starts: Sequence[int]) -> Tensor:
        counts = [len(chunk) for chunk in chunks]
        plan = self.cache.plan_chunks(rows, starts, counts)
        with torch.device(self.cache.device):
            ids = torch.zeros((len(rows), max(counts)), dtype=torch.long)
            ids[plan.row_of, plan.column_of] = torch.tensor([token for chunk in chunks for token in chunk])
            first, count = torch.tensor(starts)[:, None], torch.tensor(counts)[:, None]
            # padding asks for no position beyond its lane: tables of learned positions end somewhere
            positions = torch.minimum(first + torch.arange(max(counts)), first + count - 1)
            kept, where = torch.unique(count[:, 0] - 1, return_inverse=True)
            logits = self._run(ids, positions, plan.span, kept)
            return logits[torch.arange(len(rows)), where]

    def step(self, tokens: Sequence[int], positions: Sequence[int]) -> Tensor:
        plan = self.cache.plan_step(positions)
        ids = torch.tensor(tokens, device=self.cache.device)
        return self._run(ids[:, None], plan.at[:, None], plan.span, 1)[:, -1]

    def _run(self, ids: Tensor, positions: Tensor, span: int, kept: int | Tensor) -> Tensor:
        out = self.model(
            input_ids=ids,
            attention_mask=additive_mask(positions, span, self._dtype),
            position_ids=positions,
            use_cache=True,
            logits_to_keep=kept,
            **{self._cache_name: self.cache},
        )
        logits: Tensor = out.logits
        return logits.float()


def read(forward: Forward, rows: Sequence[int], chunks: Sequence[Sequence[int]], starts: Sequence[int]) -> Tensor:
    """`extend` in passes of bounded size. Logits after each lane's last token, (rows, vocab), f32."""
    rests, at = list(chunks), list(starts)
    while any(len(rest) > PIECE for rest in rests):
        longer = [n for n, rest in enumerate(rests) if len(rest) > PIECE]
        _passes(forward, [rows[n] for n in longer], [rests[n][:PIECE] for n in longer], [at[n] for n in longer])
        for n in longer:
            rests[n], at[n] = rests[n][PIECE:], at[n] + PIECE
    return _passes(forward, rows, rests, at)


def _passes(forward: Forward, rows: Sequence[int], chunks: Sequence[Sequence[int]], starts: Sequence[int]) -> Tensor:
    parts = [forward.extend(rows[p], chunks[p], starts[p]) for p in portions([len(chunk) for chunk in chunks])]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def portions(counts: Sequence[int]) -> list[slice]:
    """Neighbours that go through the model at once: PASS at most, padding counted."""
    out: list[slice] = []
    first = longest = 0
    for at, count in enumerate(counts):
        if at > first and max(longest, count) * (at + 1 - first) > PASS:
            out.append(slice(first, at))
            first, longest = at, 0
        longest = max(longest, count)
    return [*out, slice(first, len(counts))]
