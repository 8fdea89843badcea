"""How a policy's tokens are drawn."""

from __future__ import annotations

from dataclasses import dataclass

from rover_store.errors import UsageError

#: tokens after which a turn is cut, of a model that no run of ours made
TURN_TOKENS = 512

#: lanes that wait are answered once this share of them has its turn; the others go on meanwhile
SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Sampling:
    """`temperature` 0 is greedy. `top_p` below 1 draws from the smallest set of tokens that holds so much probability.
    A turn that has no stop token after `max_turn_tokens` is cut."""

    temperature: float = 1.0
    top_p: float = 1.0
    max_turn_tokens: int = 256

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature <= 100.0:
            raise UsageError(f"temperature {self.temperature:g}: between 0 and 100")
        if not 0.0 < self.top_p <= 1.0:
            raise UsageError(f"top_p {self.top_p:g}: above 0 and at most 1")
        if self.max_turn_tokens < 1:
            raise UsageError(f"max_turn_tokens {self.max_turn_tokens}: at least 1")

    @property
    def name(self) -> str:
        """Part of a policy's id."""
        nucleus = "" if self.top_p == 1.0 else f":p{self.top_p:g}"
        return f"T{self.temperature:g}{nucleus}:{self.max_turn_tokens}"
