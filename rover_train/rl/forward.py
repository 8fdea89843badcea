"""Log-probabilities of what a model once wrote: a pass of several rows, logits at the sampled positions alone.

Rows are padded at the right and no attention mask is given: under a causal mask no real token sees the padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from rover_train.rl.packing import Piece
from rover_train.rows import Row

PAD = 0


@dataclass(frozen=True, slots=True)
class Pass:
    """Rows as tensors. `ids` is (B, T); all others are flat over the N sampled tokens, in order of row and position.

    `at` is the position in the flattened (B T) whose logits foretell `target`; `turn` numbers turns over all rows.
    `weight` and `reference` are those of a piece, 0 where it has none.
    """

    ids: torch.Tensor
    at: torch.Tensor
    target: torch.Tensor
    old: torch.Tensor
    advantage: torch.Tensor
    weight: torch.Tensor
    reference: torch.Tensor
    turn: torch.Tensor


def tensors(pieces: Sequence[Piece], device: Any = "cpu") -> Pass:
    """The pass of some rows."""
    width = max(piece.length for piece in pieces)
    at: list[int] = []
    target: list[int] = []
    turn: list[int] = []
    real: dict[str, list[float]] = {"old": [], "advantage": [], "weight": [], "reference": []}
    turns = -1
    for b, piece in enumerate(pieces):
        row, last = piece.weighted.row, None
        none = [0.0] * piece.length
        columns = (row.logprobs, piece.weighted.advantage, piece.weights or none, piece.reference or none)
        for t in sampled(row):
            if row.turn_id[t] != last:
                last = row.turn_id[t]
                turns += 1
            at.append(b * width + t - 1)
            target.append(row.ids[t])
            turn.append(turns)
            for values, column in zip(real.values(), columns, strict=True):
                values.append(column[t])
    ids = [p.weighted.row.ids + [PAD] * (width - p.length) for p in pieces]
    return Pass(
        ids=torch.tensor(ids, dtype=torch.long, device=device),
        at=torch.tensor(at, dtype=torch.long, device=device),
        target=torch.tensor(target, dtype=torch.long, device=device),
        turn=torch.tensor(turn, dtype=torch.long, device=device),
        **{name: torch.tensor(values, dtype=torch.float32, device=device) for name, values in real.items()},
    )


def sampled(row: Row) -> list[int]:
    """Positions of the tokens that the policy wrote; the first token of a row has nothing that foretells it."""
    return [t for t, mask in enumerate(row.loss_mask) if mask and t]


def log_probs(model: Any, batch: Pass, temperature: float) -> torch.Tensor:
    """(N, V): log-probabilities over the vocabulary at the sampled positions, under the sampling temperature."""
    logits = _logits(model, batch.ids, batch.at).float()
    return torch.log_softmax(logits if temperature == 1.0 else logits / temperature, dim=-1)


def chosen(log_p: torch.Tensor, batch: Pass) -> torch.Tensor:
    """(N,): those of the tokens that were sampled."""
    return log_p.gather(1, batch.target[:, None])[:, 0]


def _logits(model: Any, ids: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Logits at flat positions. Where the model's parts allow it the output layer sees these positions alone."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    body, head = getattr(inner, "model", None), getattr(inner, "lm_head", None)
    if body is None or head is None or _shapes_logits(inner):
        logits = model(input_ids=ids, use_cache=False).logits
        found: torch.Tensor = logits.reshape(-1, logits.shape[-1])[at]
        return found
    hidden = body(input_ids=ids, use_cache=False).last_hidden_state
    flat: torch.Tensor = head(hidden.reshape(-1, hidden.shape[-1])[at])
    return flat


def _shapes_logits(model: Any) -> bool:
    """Whether a model does more than its output layer to logits (soft caps, scales)."""
    names = ("final_logit_softcapping", "logit_scale", "logits_scaling")
    return any(getattr(model.config, name, None) not in (None, 1, 1.0) for name in names)
