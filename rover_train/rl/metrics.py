"""What a step says of itself: one flat record for the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rover_train.credit import statistics
from rover_train.credit.protocol import Credit
from rover_train.rl.groups import Collected


def of_rollouts(collected: Collected) -> dict[str, Any]:
    """Outcomes, success, lengths. Rates are over the rollouts of complete groups."""
    entries = collected.entries
    turns = [len(e.done.result.trajectory.turns) for e in entries]
    tokens = [e.done.result.trajectory.usage.completion_tokens for e in entries]
    outcomes = collected.outcomes
    return {
        "rollouts": len(entries),
        "success": mean([e.outcome == "passed" for e in entries]),
        "score": mean([e.graded.verdict.score or 0.0 for e in entries]),
        "outcomes": dict(sorted(outcomes.items())),
        "infra_errors": outcomes["infra_error"],
        "verifier_errors": outcomes["verifier_error"],
        "policy_errors": outcomes["policy_error"],
        "dropped_groups": len(collected.dropped),
        "turns": mean(turns),
        "tokens": mean(tokens),
        "sampled_tokens": sum(tokens),
    }


def of_credit(credits: Sequence[Credit]) -> dict[str, Any]:
    """Rewards, advantages over turns, share of tied groups and of turns that progress or cost moved."""
    rewards = [r for c in credits for r in c.rewards]
    advantages = [a for c in credits for turns in c.turns for a in turns]
    tied = [statistics.tied(c.rewards) for c in credits if c.rewards]
    moved = [
        abs(a - whole) > statistics.TIE
        for c in credits for whole, turns in zip(c.trajectory, c.turns, strict=True) for a in turns
    ]  # fmt: skip
    return {
        "reward": mean(rewards),
        "reward_spread": statistics.deviation(rewards, "sample"),
        "advantage": mean(advantages),
        "advantage_spread": statistics.deviation(advantages, "sample"),
        "tied_groups": mean(tied),
        "credit_turns": mean(moved),
    }


def tied(credits: Sequence[Credit]) -> bool:
    """Whether no turn of a whole batch has an advantage."""
    return not any(a for c in credits for turns in c.turns for a in turns)


def mean(values: Sequence[float]) -> float:
    """0 of none."""
    return statistics.mean(values) if values else 0.0
