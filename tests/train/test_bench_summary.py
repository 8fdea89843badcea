"""The statistics of a comparison, on numbers small enough to check by hand."""

from __future__ import annotations

import math

import pytest

from rover_train.bench.summary import Arm, Trial, area, band, difference

SPACES = {"a": "x", "b": "x", "c": "y", "d": "y"}


def trial(*values: float) -> Trial:
    return Trial(dict(zip("abcd", values, strict=True)), SPACES)


def test_the_area_of_a_curve_is_a_rate() -> None:
    """Trapezoids: (0..10) mean 0.3, (10..40) mean 0.5: (10 * 0.3 + 30 * 0.5) / 40 = 0.45."""
    assert area([(0, 0.2), (10, 0.4), (40, 0.6)]) == pytest.approx(0.45)
    assert area([(5, 0.7)]) == 0.7
    assert math.isnan(area([]))


def test_an_arm_has_mean_and_spread_over_seeds() -> None:
    """Means 0.5 and 1.0: mean 0.75, standard deviation with n - 1 is sqrt(2 * 0.25^2) = 0.3536."""
    arm = Arm("grpo", {1: trial(1, 0, 1, 0), 2: trial(1, 1, 1, 1)}, {1: ((0, 0.0), (2, 1.0)), 2: ((0, 0.5), (2, 0.5))})
    assert arm.mean == 0.75
    assert arm.spread == pytest.approx(0.353553, abs=1e-6)
    assert arm.area == 0.5
    assert band(arm.curves) == [(0, 0.25, 0.0, 0.5), (2, 0.75, 0.5, 1.0)]


def test_a_difference_is_paired_by_seed_and_package() -> None:
    ours = {1: trial(1, 1, 1, 0), 2: trial(1, 1, 0, 0)}
    theirs = {1: trial(0, 1, 1, 0), 2: trial(1, 0, 1, 0)}
    found = difference(ours, theirs)
    # by package over seeds: a +0.5, b +0.5, c -0.5, d 0: mean 0.125
    assert found.value == pytest.approx(0.125)
    assert (found.wins, found.losses, found.ties) == (2, 1, 1)
    assert found.low <= found.value <= found.high
    assert (found.seeds, found.workspaces) == (2, 2)


def test_what_always_differs_by_the_same_has_no_interval() -> None:
    one, none = {s: trial(1, 1, 1, 1) for s in range(3)}, {s: trial(0, 0, 0, 0) for s in range(3)}
    found = difference(one, none)
    assert (found.low, found.value, found.high) == (1.0, 1.0, 1.0)


def test_seeds_that_disagree_widen_the_interval() -> None:
    steady = difference({s: trial(1, 0, 1, 0) for s in range(4)}, {s: trial(0, 0, 0, 0) for s in range(4)})
    mixed = difference(
        {s: trial(1, 1, 1, 1) if s % 2 else trial(0, 0, 0, 0) for s in range(4)},
        {s: trial(0, 0, 0, 0) for s in range(4)},
    )
    assert steady.value == mixed.value == 0.5
    assert mixed.high - mixed.low > steady.high - steady.low


@pytest.mark.parametrize("theirs", [{2: trial(1, 1, 1, 1)}, {1: Trial({"z": 1.0}, {"z": "x"})}])
def test_sides_without_anything_in_common_are_refused(theirs: dict[int, Trial]) -> None:
    with pytest.raises(ValueError, match="share no"):
        difference({1: trial(1, 1, 1, 1)}, theirs)
