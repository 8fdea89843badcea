"""Log-probabilities of what a model once wrote: a pass of several rows, logits at the sampled positions alone.

Rows are padded at the right and no attention mask is given: under a causal mask no real token sees the padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from rover_train.rows import WeightedRow

PAD = 0


@dataclass(frozen=True, slots=True)
class Pass:
    """Rows as tensors. `ids` is (B, T); all others are flat over the N sampled tokens, in order of row and position.

    `at` is the position in the flattened (B T) whose logits foretell `target`; `turn` numbers turns over all rows.
    """

    ids: torch.Tensor
    at: torch.Tensor
    target: torch.Tensor
    old: torch.Tensor
    advantage: torch.Tensor
    weight: torch.Tensor
    turn: torch.Tensor


def tensors(rows: Sequence[WeightedRow], weights: Sequence[Sequence[float]] | None, device: Any) -> Pass:
    """The pass of some rows. `weights`: per-token weights of terms that no advantage carries, else 0."""
    width = max(len(row.row.ids) for row in rows)
    at: list[int] = []
    target: list[int] = []
    old: list[float] = []
    advantage: list[float] = []
    weight: list[float] = []
    turn: list[int] = []
    turns = -1
    for b, weighted in enumerate(rows):
        row, last = weighted.row, None
        for t, mask in enumerate(row.loss_mask):
            if not mask or t == 0:
                continue
            if row.turn_id[t] != last:
                last = row.turn_id[t]
                turns += 1
            at.append(b * width + t - 1)
            target.append(row.ids[t])
            old.append(row.logprobs[t])
            advantage.append(weighted.advantage[t])
            weight.append(weights[b][t] if weights is not None else 0.0)
            turn.append(turns)
    ids = [row.row.ids + [PAD] * (width - len(row.row.ids)) for row in rows]
    whole = {"dtype": torch.long, "device": device}
    real = {"dtype": torch.float32, "device": device}
    return Pass(
        ids=torch.tensor(ids, **whole),
        at=torch.tensor(at, **whole),
        target=torch.tensor(target, **whole),
        old=torch.tensor(old, **real),
        advantage=torch.tensor(advantage, **real),
        weight=torch.tensor(weight, **real),
        turn=torch.tensor(turn, **whole),
    )


def log_probs(model: Any, batch: Pass, temperature: float) -> torch.Tensor:
    """(N, V): log-probabilities over the vocabulary at the sampled positions, under the sampling temperature."""
    logits = _logits(model, batch.ids, batch.at).float()
    return torch.log_softmax(logits if temperature == 1.0 else logits / temperature, dim=-1)


def chosen(log_p: torch.Tensor, batch: Pass) -> torch.Tensor:
    """(N,): those of the tokens that were sampled."""
    return log_p.gather(1, batch.target[:, None])[:, 0]


def entropy(log_p: torch.Tensor) -> torch.Tensor:
    """(N,): entropy in nats."""
    return -(log_p.exp() * log_p).sum(-1)


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
