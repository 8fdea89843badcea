"""One step: groups of rollouts, their credit, the rows with weighted advantages, the update, and what it says.

Everything follows from the weights, the config and the number of the step, so a step that was interrupted is the
same when it is taken again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rover_train.config import Config
from rover_train.credit.evidence import evidence_of, group_of
from rover_train.credit.protocol import Credit, CreditScheme, Group
from rover_train.credit.registry import aggregation, with_settings
from rover_train.credit.weights import token_weights, weighted
from rover_train.rl import metrics
from rover_train.rl.arena import Arena
from rover_train.rl.groups import Collected, TaskGroup, collect
from rover_train.rl.packing import Piece, Rollout
from rover_train.rl.players import Player
from rover_train.rl.schedule import tasks_of
from rover_train.rows import Row, WeightedRow

#: training rows by group and rollout
Rows = Sequence[Sequence[tuple[Row, ...]]]
#: updates the weights on a step's rollouts and says how that went
Learn = Callable[[Sequence[Rollout], int], Mapping[str, float]]


@dataclass(slots=True)
class Stepped:
    """What one step did: a flat record for the log, and its rollouts with their credit (`credits[g]` is that of
    `groups[g]`; `evidence[g]` what it was computed from)."""

    record: dict[str, Any]
    collected: Collected
    evidence: list[Group] = field(default_factory=list)
    credits: list[Credit] = field(default_factory=list)
    tied: bool = False


class Credits(Protocol):
    """From graded groups to pieces."""

    def of(self, groups: Sequence[TaskGroup], rows: Rows) -> tuple[list[Group], list[Credit]]:
        """Evidence and credit of each group, both empty where nothing is credited; `rows` by group and rollout."""

    def pieces(self, credits: Sequence[Credit], rows: Rows) -> list[Rollout]:
        """The rows of every rollout with their weighted advantages."""


class ByScheme:
    """The scheme that the config names."""

    def __init__(self, config: Config) -> None:
        self.settings = config.credit
        self.scheme: CreditScheme = with_settings(config.method, config.credit)
        self.aggregation = aggregation(self.scheme, config.credit)
        self.window = config.render.window
        self.explicit = bool(config.loss.kl)

    def of(self, groups: Sequence[TaskGroup], rows: Rows) -> tuple[list[Group], list[Credit]]:
        found = [group_of_task(group, some) for group, some in zip(groups, rows, strict=True)]
        return found, self.scheme.assign(found)

    def pieces(self, credits: Sequence[Credit], rows: Rows) -> list[Rollout]:
        rollouts = [some for group in rows for some in group]
        length = self.settings.length or self.window
        found = iter(weighted(rollouts, credits, self.aggregation, length=length))
        weights: Any = token_weights(rollouts, self.aggregation, length=length) if self.explicit else None
        out: list[Rollout] = []
        for n, some in enumerate(rollouts):
            mine: list[WeightedRow] = [next(found) for _ in some]
            out.append([Piece(row, weights[n][m] if weights else ()) for m, row in enumerate(mine)])
        return out


def group_of_task(group: TaskGroup, rows: Sequence[tuple[Row, ...]]) -> Group:
    """What credit is computed from, of one group."""
    env = group.env
    rollouts = [
        evidence_of(
            entry.done.result.trajectory,
            entry.graded.statuses,
            entry.graded.verdict,
            entry.graded.criteria,
            env.instruction,
            tokens_by_turn(some, len(entry.done.result.trajectory.turns)),
        )
        for entry, some in zip(group.entries, rows, strict=True)
    ]
    return group_of(group.entries[0].graded.criteria, rollouts)


def tokens_by_turn(rows: Sequence[Row], turns: int) -> list[int]:
    """How many tokens the policy wrote in each turn."""
    counts = Counter(t for row in rows for t, m in zip(row.turn_id, row.loss_mask, strict=True) if m)
    return [counts[t] for t in range(turns)]


def sample(arena: Arena, config: Config, player: Player, names: Sequence[str], step: int) -> Collected:
    """The groups of a step under the weights of now."""
    rl = config.rl
    chosen = tasks_of(names, step, rl.tasks, config.seed)
    policy, actor = player.ready(step)
    try:
        return collect(
            arena, policy, actor, chosen, group=rl.group, retries=rl.retries, seed=config.seed, step=step
        )
    finally:
        player.done()


def rows_of(groups: Sequence[TaskGroup]) -> Rows:
    """The training rows, by group and rollout."""
    return [[entry.rows() for entry in group.entries] for group in groups]


def stepped(
    arena: Arena, config: Config, player: Player, credits: Credits, learn: Learn, names: Sequence[str], step: int
) -> Stepped:
    """Take one step of credit-based RL."""
    timing = arena.timing
    collected = sample(arena, config, player, names, step)
    with timing.part("credit"):
        rows = rows_of(collected.groups)
        evidence, found = credits.of(collected.groups, rows)
        pieces = credits.pieces(found, rows)
    tied = bool(found) and metrics.tied(found)
    with timing.part("update"):
        updated = learn(pieces, step)
    record = {**metrics.of_rollouts(collected), **(metrics.of_credit(found) if found else {}), **updated}
    return Stepped(record, collected, evidence, found, tied)
