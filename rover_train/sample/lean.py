"""A forward pass for models of Llama's make (Llama, Qwen2, Qwen3), for small models on a CPU.

It reads the weights of the model's own modules and computes what their forward computes, within float noise; what
it saves is the cost of many small operations: projections are joined, lanes are packed instead of padded, query
heads that share a key head are one matrix, and attention reads no further than each block of lanes is long.
LoRA layers are merged into a copy at `refresh`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as nnf
from torch import Tensor

from rover_train.sample.cache import RaggedCache, RaggedLayer, bucket

_KINDS = frozenset({"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"})
#: rotary tables that do not depend on the length of the input
_ROPES = frozenset({"default", "linear", "llama3", "yarn"})
#: projections are joined up to this width: beyond it the products cost more than the calls, and copies memory
_JOINED_WIDTH = 512
#: lanes whose attention reads equally far
_BLOCK = 16


@dataclass(frozen=True, slots=True)
class _Joined:
    """Several projections of one input; one where they are joined."""

    weights: tuple[Tensor, ...]
    biases: tuple[Tensor | None, ...]

    def __call__(self, x: Tensor) -> Tensor:
        parts = [nnf.linear(x, w, b) for w, b in zip(self.weights, self.biases, strict=True)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


@dataclass(frozen=True, slots=True)
class _Layer:
    before: Tensor
    qkv: _Joined
    #: (query heads + key heads, head size), or None: no norm on heads
    heads: Tensor | None
    out: _Joined
    between: Tensor
    gate_up: _Joined
    down: _Joined


def supports(model: Any) -> bool:
    """Whether LeanForward can stand in for the model's own forward."""
    model = _plain(model)
    config = model.config
    first = next(model.parameters())
    rope = getattr(config, "rope_parameters", None) or {}
    types = getattr(config, "layer_types", None) or ["full_attention"]
    return bool(
        type(model).__name__ in _KINDS
        and getattr(config, "hidden_act", "") == "silu"
        and rope.get("rope_type", "default") in _ROPES
        and set(types) == {"full_attention"}
        and all(_is_linear(module) for module in _projections(model))
        and first.dtype == torch.float32
        and first.device.type == "cpu"
    )


class LeanForward:
    """See `rover_train.sample.forward.Forward`."""

    def __init__(self, model: Any) -> None:
        self._model = _plain(model)
        self.cache = RaggedCache()
        config = self._model.config
        self._queries: int = config.num_attention_heads
        self._keys: int = config.num_key_value_heads
        self._size: int = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._eps: float = config.rms_norm_eps
        self._layers: list[_Layer] = []
        self._cos = self._sin = torch.empty(0)

    def refresh(self) -> None:
        with torch.no_grad():
            body = self._model.model
            joined = self._model.config.hidden_size <= _JOINED_WIDTH
            self._layers = [_read_layer(layer, self._queries, self._keys, joined) for layer in body.layers]
            self._norm: Tensor = body.norm.weight
            self._embedding: Tensor = body.embed_tokens.weight
            self._head = _join([self._model.lm_head], joined)

    def extend(self, rows: Sequence[int], chunks: Sequence[Sequence[int]], starts: Sequence[int]) -> Tensor:
        counts = [len(chunk) for chunk in chunks]
        plan = self.cache.plan_chunks(rows, starts, counts)
        cuts = [0, *torch.tensor(counts).cumsum(0).tolist()]
        spans = [bucket(start + count) for start, count in zip(starts, counts, strict=True)]
        groups = self._queries // self._keys
        masks = []
        for start, count, span in zip(starts, counts, spans, strict=True):
            hidden = torch.arange(span) > torch.arange(start, start + count)[:, None]
            masks.append(torch.zeros(hidden.shape).masked_fill_(hidden, float("-inf")).repeat(groups, 1))

        def attend(layer: RaggedLayer, query: Tensor) -> Tensor:
            out = torch.empty_like(query)
            for i, row in enumerate(rows):
                part = slice(cuts[i], cuts[i + 1])
                shape = (counts[i], self._keys, groups, self._size)
                q = query[part].view(shape).permute(1, 2, 0, 3).reshape(1, self._keys, -1, self._size)
                keys, values = layer.keys[row : row + 1, :, : spans[i]], layer.values[row : row + 1, :, : spans[i]]
                found = nnf.scaled_dot_product_attention(q, keys, values, attn_mask=masks[i])
                found = found.view(self._keys, groups, counts[i], self._size).permute(2, 0, 1, 3)
                out[part] = found.reshape(counts[i], -1)
            return out

        tokens = torch.tensor([token for chunk in chunks for token in chunk])
        last = torch.tensor(cuts[1:]) - 1
        return self._run(tokens, plan.at, plan.buffer_row, attend, last)

    def step(self, tokens: Sequence[int], positions: Sequence[int]) -> Tensor:
        plan = self.cache.plan_step(positions)
        count = len(positions)
        hidden = torch.arange(plan.span) > plan.at[:, None]
        mask = torch.zeros(hidden.shape).masked_fill_(hidden, float("-inf")).view(count, 1, 1, plan.span)
        blocks = [(k, min(k + _BLOCK, count)) for k in range(0, count, _BLOCK)]
        spans = [bucket(max(positions[a:b]) + 1) for a, b in blocks]
        shape = (count, self._keys, self._queries // self._keys, self._size)

        def attend(layer: RaggedLayer, query: Tensor) -> Tensor:
            q = query.view(shape)
            parts = [
                nnf.scaled_dot_product_attention(
                    q[a:b], layer.keys[a:b, :, :span], layer.values[a:b, :, :span], attn_mask=mask[a:b, :, :, :span]
                )
                for (a, b), span in zip(blocks, spans, strict=True)
            ]
            return (parts[0] if len(parts) == 1 else torch.cat(parts)).reshape(count, -1)

        return self._run(torch.tensor(tokens), plan.at, plan.buffer_row, attend, None)

    # --- the pass ----------------------------------------------------------------------------------------
    def _run(self, tokens: Tensor, at: Tensor, rows: Tensor, attend: Any, kept: Tensor | None) -> Tensor:
        """`tokens`, `at`, `rows`: one entry a token, packed."""
        x = self._embedding[tokens]
        cos, sin = self._rotary(at)
        width, heads = x.shape[1:], self._queries + self._keys
        turned = heads * self._size
        states = (-1, self._keys, self._size)
        for index, layer in enumerate(self._layers):
            mixed = layer.qkv(nnf.rms_norm(x, width, layer.before, self._eps))
            qk = mixed[:, :turned].view(-1, heads, self._size)
            if layer.heads is not None:
                qk = nnf.rms_norm(qk, (self._size,), None, self._eps) * layer.heads
            half = self._size // 2
            qk = torch.addcmul(qk * cos, torch.cat((qk[..., half:], qk[..., :half]), dim=-1), sin)
            query = qk[:, : self._queries].reshape(len(qk), -1)
            held = self.cache.held(index, qk[:, self._queries :].view(states), mixed[:, turned:].view(states))
            x = x + layer.out(attend(held, query))
            gate, up = layer.gate_up(nnf.rms_norm(x, width, layer.between, self._eps)).chunk(2, dim=-1)
            x = x + layer.down(nnf.silu(gate).mul_(up))
        if kept is not None:
            x = x[kept]
        return self._head(nnf.rms_norm(x, width, self._norm, self._eps)).float()

    def _rotary(self, at: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines, and sines with the sign of the half that they go to, (tokens, 1, head size)."""
        if len(self._cos) < self.cache.capacity:
            positions = torch.arange(self.cache.capacity)[None]
            cos, sin = self._model.model.rotary_emb(self._embedding, positions)
            sin[..., : self._size // 2] *= -1
            self._cos, self._sin = cos[0], sin[0]
        return self._cos[at, None], self._sin[at, None]


# --- reading weights --------------------------------------------------------------------------------------
def _plain(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _projections(model: Any) -> list[Any]:
    found = [model.lm_head]
    for layer in model.model.layers:
        a, m = layer.self_attn, layer.mlp
        found += [a.q_proj, a.k_proj, a.v_proj, a.o_proj, m.gate_proj, m.up_proj, m.down_proj]
    return found


def _is_linear(module: Any) -> bool:
    base = getattr(module, "base_layer", module)
    merges = base is module or hasattr(module, "get_delta_weight")
    return type(base) is torch.nn.Linear and merges


def _weight(module: Any) -> Tensor:
    base = getattr(module, "base_layer", module)
    weight: Tensor = base.weight
    if base is not module and not module.disable_adapters and not module.merged:
        for name in module.active_adapters:
            if name in module.lora_A:
                weight = weight + module.get_delta_weight(name)
    return weight


def _join(modules: list[Any], joined: bool) -> _Joined:
    weights = [_weight(module) for module in modules]
    biases = [getattr(module, "base_layer", module).bias for module in modules]
    if not joined or len(modules) == 1:
        return _Joined(tuple(weights), tuple(biases))
    bias = None if biases[0] is None else torch.cat(biases)
    return _Joined((torch.cat(weights),), (bias,))


def _read_layer(layer: Any, queries: int, keys: int, joined: bool) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    heads = None
    if hasattr(attention, "q_norm"):
        q, k = attention.q_norm.weight, attention.k_norm.weight
        heads = torch.cat((q.expand(queries, -1), k.expand(keys, -1)))
    return _Layer(
        before=layer.input_layernorm.weight,
        qkv=_join([attention.q_proj, attention.k_proj, attention.v_proj], joined),
        heads=heads,
        out=_join([attention.o_proj], joined),
        between=layer.post_attention_layernorm.weight,
        gate_up=_join([mlp.gate_proj, mlp.up_proj], joined),
        down=_join([mlp.down_proj], joined),
    )
