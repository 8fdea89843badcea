"""Token weights and rows with weighted advantages. Expected values are worked out in the docstrings."""

from __future__ import annotations

import pytest

from rover_store.errors import UsageError
from rover_train.credit import Credit, token_weights, turn_weights, weighted
from rover_train.rows import Row


def row(*turns: int) -> Row:
    """A row whose tokens belong to these turns; -1: prompt or observation."""
    n = len(turns)
    return Row([7] * n, [int(t >= 0) for t in turns], list(turns), [0.0] * n)


TOKENS = [[2, 4], [3]]


def test_by_turn() -> None:
    """B = 2. Two turns of 2 and 4 tokens: 1 / (2 x 2 x 2) and 1 / (2 x 2 x 4). One turn of 3: 1 / (2 x 3)."""
    assert turn_weights(TOKENS) == [[1 / 8, 1 / 16], [1 / 6]]


def test_by_trajectory() -> None:
    """1 / (2 x 6) and 1 / (2 x 3)."""
    assert turn_weights(TOKENS, "trajectory") == [[1 / 12, 1 / 12], [1 / 6]]


def test_by_token() -> None:
    """1 / 9 each."""
    assert turn_weights(TOKENS, "token") == [[1 / 9, 1 / 9], [1 / 9]]


def test_by_constant() -> None:
    """1 / (2 x 100)."""
    assert turn_weights(TOKENS, "constant", length=100) == [[1 / 200, 1 / 200], [1 / 200]]
    with pytest.raises(UsageError, match="needs a length"):
        turn_weights(TOKENS, "constant")


def test_a_turn_without_tokens_counts_nowhere() -> None:
    assert turn_weights([[2, 0]]) == [[1 / 2, 0.0]]
    assert turn_weights([[0], [2]]) == [[0.0], [1 / 4]]


def test_rows_share_the_weight_of_their_rollout() -> None:
    """One rollout in two rows: turn 0 has 2 tokens in the first, turn 1 has 1 in the first and 2 in the second.
    T = 2, so 1 / (1 x 2 x 2) and 1 / (1 x 2 x 3)."""
    first, second = token_weights([[row(-1, 0, 0, 1), row(-1, 1, 1)]])[0]
    assert first == [0.0, 1 / 4, 1 / 4, 1 / 6]
    assert second == [0.0, 1 / 6, 1 / 6]


def test_weighted_advantages() -> None:
    """Rollout 0: turn advantages 8 and 16 under weights 1/8 and 1/16 give 1 and 1. Its turn 2 is not in the record
    (T = 3 then, so weights 1/12, 1/24, 1/6): the trajectory's 6 gives 1."""
    one = Credit((1.0, 0.0), (6.0, -6.0), ((8.0, 16.0), (-6.0,)))
    out = weighted([[row(-1, 0, 0, -1, 1, 1, 1, 1)], [row(0, 0, 0)]], [one])
    assert out[0].advantage == [0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    assert out[1].advantage == [-1.0] * 3
    beyond = weighted([[row(0, 0, 1, 1, 1, 1, 2)], [row(0)]], [one])
    assert beyond[0].advantage == pytest.approx([8 / 12] * 2 + [16 / 24] * 4 + [1.0])


def test_batch_goes_on_over_groups() -> None:
    """Two groups of one rollout each: B = 2, one turn of one token: weight 1/2."""
    credits = [Credit((1.0,), (4.0,), ((4.0,),)), Credit((1.0,), (2.0,), ((2.0,),))]
    assert [w.advantage for w in weighted([[row(0)], [row(0)]], credits)] == [[2.0], [1.0]]


def test_rows_and_credit_are_of_the_same_rollouts() -> None:
    with pytest.raises(ValueError, match="credit for 1 rollouts, rows of 2"):
        weighted([[row(0)], [row(0)]], [Credit((1.0,), (4.0,), ((4.0,),))])
