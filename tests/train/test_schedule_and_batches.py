"""Learning rate and batches: functions of the step, checked by hand."""

from __future__ import annotations

import pytest

from rover_train.train.batches import Batches
from rover_train.train.schedule import factor
from rover_train.train.settings import OptimSettings


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        # constant: 1 from the first step on
        ({}, [1, 1, 1, 1, 1]),
        # two steps of warm-up reach the peak at the second
        ({"warmup": 2.0}, [0.5, 1, 1, 1, 1]),
        # a share of the steps: 0.4 x 5 = 2
        ({"warmup": 0.4}, [0.5, 1, 1, 1, 1]),
        # from 1 to 0 over four intervals
        ({"schedule": "linear"}, [1, 0.75, 0.5, 0.25, 0]),
        # to a tenth: 0.1 + 0.9 x (1, 3/4, 1/2, 1/4, 0)
        ({"schedule": "linear", "floor": 0.1}, [1, 0.775, 0.55, 0.325, 0.1]),
        # (1 + cos(pi x)) / 2 at x = 0, 1/4, 1/2, 3/4, 1
        ({"schedule": "cosine"}, [1, 0.853553, 0.5, 0.146447, 0]),
        # behind two steps of warm-up three are left: x = 0, 1/2, 1
        ({"schedule": "cosine", "warmup": 2.0}, [0.5, 1, 1, 0.5, 0]),
    ],
)
def test_the_rate_of_five_steps(settings: dict[str, object], expected: list[float]) -> None:
    made = OptimSettings.model_validate(settings)
    assert [factor(made, step, 5) for step in range(5)] == pytest.approx(expected, abs=1e-6)


def test_a_schedule_may_be_all_warm_up() -> None:
    assert [factor(OptimSettings(warmup=4, schedule="linear"), s, 2) for s in range(2)] == [0.25, 0.5]


def test_every_epoch_sees_every_row_once() -> None:
    lengths = [n % 7 + 1 for n in range(37)]
    batches = Batches(lengths, 5, seed=3)
    assert batches.per_epoch == 8
    for epoch in range(3):
        seen = [n for step in range(8) for n in batches.at(epoch * 8 + step)]
        assert sorted(seen) == list(range(37))


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    lengths = [n % 7 + 1 for n in range(37)]
    forward, backward = Batches(lengths, 5, seed=3), Batches(lengths, 5, seed=3)
    some = [forward.at(step) for step in range(24)]
    assert [backward.at(step) for step in reversed(range(24))] == some[::-1]
    assert [Batches(lengths, 5, seed=4).at(step) for step in range(24)] != some
    assert some[:8] != some[8:16]


def test_rows_of_like_length_share_a_batch() -> None:
    lengths = [n * 17 % 100 + 1 for n in range(100)]
    batches = Batches(lengths, 10, seed=0)
    padded = sum(10 * max(lengths[n] for n in batches.at(step)) for step in range(10))
    assert padded < 1.15 * sum(lengths)
