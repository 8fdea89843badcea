"""A key-value cache for lanes of different lengths that come, go and grow apart (continuous ragged batching).

One buffer a layer, shape (rows, kv heads, capacity, head size); a lane is a row. Lanes that compute are the first
rows, so that attention reads a view and never a copy. What a forward pass reads and writes is its `Plan`, laid
down before the pass; transformers' attention then calls `update` as with any cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

#: attention reads whole steps of so many positions, and buffers grow by them
STEP = 16


def bucket(length: int, step: int = STEP) -> int:
    """The length rounded up to a whole step."""
    return -(-length // step) * step


@dataclass(slots=True)
class Plan:
    """One forward pass. New token i of the batch, at (row_of[i], column_of[i]) of the input, is written at buffer row
    `buffer_row[i]`, position `at[i]`; attention reads `span` positions of the rows `reads`."""

    reads: slice | Tensor
    span: int
    row_of: Tensor
    column_of: Tensor
    buffer_row: Tensor
    at: Tensor
    _places: Tensor | None = None

    def places(self, heads: int, capacity: int) -> Tensor:
        """Where the new tokens' states go in a buffer that is flat but for the head size, token by token."""
        if self._places is None:
            head = self.buffer_row[:, None] * heads + torch.arange(heads, device=self.at.device)
            self._places = (head * capacity + self.at[:, None]).flatten()
        return self._places


class RaggedLayer(CacheLayerMixin):  # type: ignore[misc]
    """The buffers of one layer."""

    is_sliding = False

    def __init__(self, cache: RaggedCache) -> None:
        super().__init__()
        self._cache = cache

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        rows, capacity = self._cache.rows, self._cache.capacity
        # zeros, not empty: what a mask hides must still be a number
        self.keys = key_states.new_zeros((rows, key_states.shape[1], capacity, key_states.shape[3]))
        self.values = value_states.new_zeros((rows, value_states.shape[1], capacity, value_states.shape[3]))
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Write the new states, (rows, kv heads, width, head size), where the plan says; what attention reads."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        plan = self._cache.plan
        self.keys[plan.buffer_row, :, plan.at] = key_states[plan.row_of, :, plan.column_of]
        self.values[plan.buffer_row, :, plan.at] = value_states[plan.row_of, :, plan.column_of]
        return self.keys[plan.reads, :, : plan.span], self.values[plan.reads, :, : plan.span]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._cache.plan.span, 0

    def get_seq_length(self) -> int:
        return self._cache.plan.span if self.is_initialized else 0

    def get_max_length(self) -> int:
        return -1

    def resize(self, rows: int, capacity: int) -> None:
        """Larger buffers with the same content."""
        if self.is_initialized:
            self.keys, self.values = _grown(self.keys, rows, capacity), _grown(self.values, rows, capacity)


def _grown(old: Tensor, rows: int, capacity: int) -> Tensor:
    new = old.new_zeros((rows, old.shape[1], capacity, old.shape[3]))
    new[: old.shape[0], :, : old.shape[2]] = old
    return new


class RaggedCache(Cache):  # type: ignore[misc]
    """The buffers of all layers. Who owns which row is the caller's business."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self.rows = 0
        self.capacity = 0
        self.plan: Plan
        super().__init__(layers=[])

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        while len(self.layers) <= layer_idx:
            self.layers.append(RaggedLayer(self))
        keys, values = self.layers[layer_idx].update(key_states, value_states)
        return keys, values

    def held(self, layer_idx: int, keys: Tensor, values: Tensor) -> RaggedLayer:
        """Write packed states, (tokens, kv heads, head size), where the plan says; the layer's buffers."""
        while len(self.layers) <= layer_idx:
            self.layers.append(RaggedLayer(self))
        layer: RaggedLayer = self.layers[layer_idx]
        if not layer.is_initialized:
            layer.lazy_initialization(keys[:, :, None], values[:, :, None])
        size = keys.shape[-1]
        places = self.plan.places(keys.shape[1], self.capacity)
        layer.keys.view(-1, size).index_copy_(0, places, keys.reshape(-1, size))
        layer.values.view(-1, size).index_copy_(0, places, values.reshape(-1, size))
        return layer

    def reserve(self, rows: int, length: int) -> None:
        """Room for so many rows of such a length; content is kept. Grows by half at least, so that it is rare."""
        if rows <= self.rows and length <= self.capacity:
            return
        if rows > self.rows:
            self.rows = max(rows, self.rows + self.rows // 2)
        if length > self.capacity:
            self.capacity = bucket(max(length, self.capacity + self.capacity // 2), 64)
        for layer in self.layers:
            layer.resize(self.rows, self.capacity)

    def swap(self, one: int, other: int, length: int) -> None:
        """Exchange the first `length` positions of two rows."""
        for layer in self.layers:
            for states in (layer.keys, layer.values):
                kept = states[one, :, :length].clone()
                states[one, :, :length] = states[other, :, :length]
                states[other, :, :length] = kept

    def copy(self, source: int, target: int, length: int) -> None:
        """Give a row the first `length` positions of another."""
        for layer in self.layers:
            for states in (layer.keys, layer.values):
                states[target, :, :length] = states[source, :, :length]

    def clear(self) -> None:
        """Forget everything, memory too."""
        self.rows = self.capacity = 0
        self.layers.clear()

    # --- plans -------------------------------------------------------------------------------------------
    def plan_chunks(self, rows: Sequence[int], starts: Sequence[int], counts: Sequence[int]) -> Plan:
        """Row rows[i] takes counts[i] new tokens from position starts[i] on; inputs are padded on the right."""
        span = bucket(max(start + count for start, count in zip(starts, counts, strict=True)))
        self.reserve(max(rows) + 1, span)
        with torch.device(self.device):
            row_of = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor(counts))
            column_of = torch.cat([torch.arange(count) for count in counts])
            buffer, start = torch.tensor(rows), torch.tensor(starts)
        self.plan = Plan(buffer, span, row_of, column_of, buffer[row_of], start[row_of] + column_of)
        return self.plan

    def plan_step(self, positions: Sequence[int]) -> Plan:
        """One new token for each of the first len(positions) rows, at its position."""
        count = len(positions)
        span = bucket(max(positions) + 1)
        self.reserve(count, span)
        rows = torch.arange(count, device=self.device)
        at = torch.tensor(positions, device=self.device)
        self.plan = Plan(slice(0, count), span, rows, torch.zeros_like(rows), rows, at)
        return self.plan


def additive_mask(positions: Tensor, span: int, dtype: torch.dtype) -> Tensor:
    """Shape (rows, 1, width, span): 0 where a query at `positions` (rows, width) may look, the least number elsewhere.

    A lane's own tokens fill its row from 0 on without gaps, so causality is all that a mask has to say."""
    hidden = torch.arange(span, device=positions.device) > positions[:, None, :, None]
    return torch.zeros_like(hidden, dtype=dtype).masked_fill_(hidden, torch.finfo(dtype).min)
