"""The tokens of one rollout as they came about, and the training row that they make. No torch."""

from __future__ import annotations

from rover_train.rows import Row


class Transcript:
    """What was shown and what was sampled, in order; ids are never re-encoded."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.turn_id: list[int] = []
        self.logprobs: list[float] = []

    def show(self, ids: list[int]) -> None:
        """Prompt and observation tokens, which no loss sees."""
        self.ids += ids
        self.turn_id += [-1] * len(ids)
        self.logprobs += [0.0] * len(ids)

    def sample(self, token: int, logprob: float, turn: int) -> None:
        """One token that the policy wrote in its turn `turn`, counted from 0."""
        self.ids.append(token)
        self.turn_id.append(turn)
        self.logprobs.append(logprob)

    def rows(self, rollout: str = "", package: str = "") -> tuple[Row, ...]:
        """The row, without what was shown after the last sampled token; none where nothing was sampled."""
        end = len(self.ids)
        while end and self.turn_id[end - 1] < 0:
            end -= 1
        if not end:
            return ()
        turns = self.turn_id[:end]
        return (
            Row(
                ids=self.ids[:end],
                loss_mask=[int(turn >= 0) for turn in turns],
                turn_id=turns,
                logprobs=self.logprobs[:end],
                rollout=rollout,
                package=package,
            ),
        )
