"""The one contract between rollouts, credit and losses: a row of tokens. Plain Python, no torch.

A rollout is one row, or several where its context outgrew the window: these share the rollout's weight.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One training row: all lists have length L, prompt first.

    `loss_mask` is 1 on tokens that the policy wrote (end-of-turn token included, where it was sampled), 0 on
    prompt and observations. `turn_id` counts the policy's turns from 0 over the whole rollout, -1 elsewhere.
    `logprobs` are the sampler's, natural log, 0.0 where nothing was sampled. Ids are as sampled, never re-encoded.
    """

    ids: list[int]
    loss_mask: list[int]
    turn_id: list[int]
    logprobs: list[float]
    rollout: str = ""
    package: str = ""

    def __post_init__(self) -> None:
        if not len(self.ids) == len(self.loss_mask) == len(self.turn_id) == len(self.logprobs):
            raise ValueError("a row's ids, loss mask, turn ids and log-probabilities differ in length")

    @property
    def turns(self) -> int:
        """How many of the policy's turns have tokens here."""
        return len({t for t, m in zip(self.turn_id, self.loss_mask, strict=True) if m})


@dataclass(frozen=True, slots=True)
class WeightedRow:
    """A row and its weighted advantage per token, shape (L,): the advantage of the turn times the token's weight
    1 / (B T_r n_rt), so that the loss is a plain sum over tokens; 0.0 where the loss mask is 0."""

    row: Row
    advantage: list[float]
