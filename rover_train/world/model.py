"""The small model: a Llama from a config, whose first two layers begin as the two steps of copying.

Models of this size need millions of tokens before they find out how to copy. Pretrained ones long know: a head looks
back at the token before, and another finds where the present token stood earlier, and takes what came next (induction
heads). `begin_copying` writes both down as first weights; training goes on from there, nothing is frozen.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

WIDTH, LAYERS, HEADS, KEY_HEADS, INNER = 192, 4, 6, 2, 512
POSITIONS = 1024
THETA = 1_000_000.0

#: strength of the heads that look back, of their writing, of the match, and of the copy
_BACK, _WRITE, _MATCH, _COPY = 6.0, 0.03, 1.3, 0.08


def make(vocabulary: int, seed: int, *, width: int = WIDTH, layers: int = LAYERS) -> Any:
    """A model with drawn weights; equal arguments give equal ones."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=width, num_hidden_layers=layers, num_attention_heads=HEADS,
        num_key_value_heads=KEY_HEADS, intermediate_size=INNER, max_position_embeddings=POSITIONS,
        rope_parameters={"rope_type": "default", "rope_theta": THETA}, attention_bias=True, tie_word_embeddings=True,
        pad_token_id=0, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
        begin_copying(model)
    return model


@torch.no_grad()
def begin_copying(model: Any) -> None:
    """First weights of the first two attention layers. Random bases are drawn from torch's generator."""
    config = model.config
    width, size = config.hidden_size, config.hidden_size // config.num_attention_heads
    group = config.num_attention_heads // config.num_key_value_heads
    turns = _turns(config.rope_parameters["rope_theta"], size // 2)
    first, second = model.model.layers[0].self_attn, model.model.layers[1].self_attn
    read = _basis(width, size).T
    places = _basis(width, width)
    written = [places[:, n * size : (n + 1) * size] for n in range(group)]
    _look_back(first, turns, read, written)
    slow = [n for n in range(size // 2) if turns[n] < 0.008]
    same, before = slow, [n + size // 2 for n in slow]
    for key in range(config.num_key_value_heads):
        part = slice(key * len(slow), (key + 1) * len(slow))
        rows = slice(key * size, (key + 1) * size)
        second.k_proj.weight[rows][same] += _MATCH * written[0].T[part]
        second.k_proj.weight[rows][before] += _MATCH * written[1].T[part]
        value = _basis(width, size).T
        second.v_proj.weight[rows] = value
        for number in range(group):
            head = slice((key * group + number) * size, (key * group + number + 1) * size)
            second.q_proj.weight[head][same] += _MATCH * _MATCH * read[part]
            if number:  # these match the token before, too
                second.q_proj.weight[head][before] += _MATCH * _MATCH * written[0].T[part]
            second.o_proj.weight[:, head] = _COPY / 1.5 * value.T


def _look_back(layer: Any, turns: Tensor, read: Tensor, written: list[Tensor]) -> None:
    """Heads of the first group attend 1, 2, 3 tokens back, whatever stands there, and write it apart."""
    size = 2 * len(turns)
    fast = [n for n in range(len(turns)) if turns[n] > 0.12]
    bias = torch.zeros(size)
    bias[fast] = _BACK
    layer.k_proj.bias[:size] = bias
    layer.k_proj.weight[:size] *= 0.1
    layer.v_proj.weight[:size] = read
    for number, place in enumerate(written):
        head = slice(number * size, (number + 1) * size)
        layer.q_proj.bias[head] = _turned(bias, -(number + 1) * turns)
        layer.q_proj.weight[head] *= 0.1
        layer.o_proj.weight[:, head] = _WRITE * place


def _turns(theta: float, pairs: int) -> Tensor:
    """Radians a token, for each pair of a head's dimensions."""
    return torch.tensor([math.pow(theta, -n / pairs) for n in range(pairs)])


def _turned(vector: Tensor, angle: Tensor) -> Tensor:
    """A head's vector as rotary embedding turns it."""
    x, y = vector.chunk(2)
    return torch.cat((x * angle.cos() - y * angle.sin(), y * angle.cos() + x * angle.sin()))


def _basis(rows: int, columns: int) -> Tensor:
    """Orthonormal columns."""
    basis: Tensor = torch.linalg.qr(torch.randn(rows, columns))[0]
    return basis
