"""Token weights, and advantages with the weights folded in: the loss over them is a plain sum over tokens.

Folding is exact because the clipped surrogate is positively homogeneous in the advantage. A term that has no
advantage (KL to a reference, entropy) takes the weights explicitly: `token_weights`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rover_store.errors import UsageError
from rover_train.credit.protocol import Credit
from rover_train.credit.settings import Aggregation
from rover_train.rows import Row, WeightedRow

#: the rows of one rollout, in order
Rollout = Sequence[Row]


def turn_weights(
    tokens: Sequence[Sequence[int]], aggregation: Aggregation = "turn", *, length: int | None = None
) -> list[list[float]]:
    """The weight of each token of a turn. `tokens`: for each rollout the tokens of its turns.

    turn         1 / (B T_r n_rt): mean over a turn's tokens, over a trajectory's turns, over trajectories
    trajectory   1 / (B N_r): mean over a trajectory's tokens, then over trajectories
    token        1 / (all tokens of the batch)
    constant     1 / (B L_max), `length` = L_max

    B is the number of rollouts; a turn without tokens counts nowhere. UsageError for a constant length that is not
    given.
    """
    if aggregation == "constant" and not length:
        raise UsageError("aggregation constant needs a length", hint="set credit.length")
    size = len(tokens)
    whole = sum(n for turns in tokens for n in turns)
    out = []
    for turns in tokens:
        told = sum(1 for n in turns if n)
        below = {
            "trajectory": size * sum(turns),
            "token": whole,
            "constant": size * (length or 0),
        }.get(aggregation, 0)
        out.append([0.0 if not n else 1.0 / (size * told * n if aggregation == "turn" else below) for n in turns])
    return out


def token_weights(
    rollouts: Sequence[Rollout], aggregation: Aggregation = "turn", *, length: int | None = None
) -> list[list[list[float]]]:
    """For each rollout and row the weight of each token, 0.0 where the policy wrote nothing.

    Rows of one rollout share its weight: a turn's tokens are counted over all of them.
    """
    counts = [_counts(rows) for rows in rollouts]
    orders = [sorted(c) for c in counts]
    tokens = [[c[t] for t in order] for c, order in zip(counts, orders, strict=True)]
    weights = turn_weights(tokens, aggregation, length=length)
    out = []
    for rows, order, of_turn in zip(rollouts, orders, weights, strict=True):
        by_turn: Mapping[int, float] = dict(zip(order, of_turn, strict=True))
        out.append([[by_turn[t] if m else 0.0 for t, m in zip(r.turn_id, r.loss_mask, strict=True)] for r in rows])
    return out


def _counts(rows: Rollout) -> Counter[int]:
    return Counter(t for row in rows for t, m in zip(row.turn_id, row.loss_mask, strict=True) if m)


def weighted(
    rollouts: Sequence[Rollout],
    credits: Sequence[Credit],
    aggregation: Aggregation = "turn",
    *,
    length: int | None = None,
) -> list[WeightedRow]:
    """Rows with their weighted advantages, rollout after rollout.

    `rollouts` are those of all groups, in the order of `credits` and of the rollouts in them. A token of a turn that
    credit does not know (sampled beyond the record, at a used-up budget) gets the trajectory's advantage alone.
    """
    advantages = [pair for c in credits for pair in zip(c.trajectory, c.turns, strict=True)]
    if len(advantages) != len(rollouts):
        raise ValueError(f"credit for {len(advantages)} rollouts, rows of {len(rollouts)}")
    weights = token_weights(rollouts, aggregation, length=length)
    out = []
    for rows, of_rollout, (trajectory, turns) in zip(rollouts, weights, advantages, strict=True):
        for row, of_row in zip(rows, of_rollout, strict=True):
            told = (turns[t] if 0 <= t < len(turns) else trajectory for t in row.turn_id)
            out.append(WeightedRow(row, [a * w if w else 0.0 for a, w in zip(told, of_row, strict=True)]))
    return out
