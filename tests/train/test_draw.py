"""Drawing tokens: the inverse of the distribution function, the nucleus, and numbers keyed by seed and turn."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from rover_store.errors import UsageError  # noqa: E402
from rover_train.sample.draw import draw  # noqa: E402
from rover_train.sample.seeding import uniforms  # noqa: E402
from rover_train.sample.settings import Sampling  # noqa: E402

LOGITS = torch.tensor([[0.0, math.log(2.0), math.log(5.0), -math.inf]])  # 1/8, 2/8, 5/8, 0


def drawn(points, sampling=None):
    return draw(LOGITS.repeat(len(points), 1), points, sampling or Sampling())


def test_a_token_is_drawn_where_the_distribution_function_passes_the_number():
    tokens, logprobs = drawn([0.0, 0.124, 0.126, 0.374, 0.376, 0.9999999])
    assert tokens == [0, 0, 1, 1, 2, 2]
    assert logprobs == pytest.approx([math.log(p / 8) for p in (1, 1, 2, 2, 5, 5)], abs=1e-6)


def test_frequencies_are_the_probabilities():
    points = uniforms(7, 0, 20_000)
    tokens, _ = drawn(points)
    shares = np.bincount(tokens, minlength=4) / len(tokens)
    assert shares == pytest.approx([0.125, 0.25, 0.625, 0.0], abs=0.01)


def test_temperature_sharpens():
    """Halved temperature squares the weights: 1, 4, 25 of 30."""
    _, logprobs = drawn([0.5], Sampling(temperature=0.5))
    assert logprobs == pytest.approx([math.log(25 / 30)], abs=1e-6)


def test_greedy_ignores_the_number_and_reports_the_model_s_own_log_probability():
    tokens, logprobs = drawn([0.0, 0.9], Sampling(temperature=0.0))
    assert tokens == [2, 2]
    assert logprobs == pytest.approx([math.log(5 / 8)] * 2, abs=1e-6)


def test_the_nucleus_is_the_smallest_set_that_holds_so_much():
    """0.7 needs tokens 2 (5/8) and 1 (2/8): 0 is out, and they are drawn 5 to 2. Log-probabilities are uncut."""
    tokens, logprobs = drawn([0.0, 2 / 7 - 0.01, 2 / 7 + 0.01, 0.99], Sampling(top_p=0.7))
    assert tokens == [1, 1, 2, 2]
    assert logprobs == pytest.approx([math.log(p / 8) for p in (2, 2, 5, 5)], abs=1e-6)
    assert drawn([0.0, 0.99], Sampling(top_p=0.1))[0] == [2, 2]


def test_numbers_belong_to_seed_turn_and_token():
    many = uniforms(3, 2, 50)
    assert uniforms(3, 2, 10).tolist() == many[:10].tolist()
    assert uniforms(3, 2, 50).tolist() == many.tolist()
    assert not np.isin(many, np.concatenate([uniforms(3, 1, 50), uniforms(2, 2, 50), uniforms(-4, 2, 50)])).any()
    assert many.min() >= 0.0
    assert many.max() < 1.0


@pytest.mark.parametrize("wrong", [{"temperature": -1.0}, {"top_p": 0.0}, {"top_p": 1.5}, {"max_turn_tokens": 0}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Sampling(**wrong)


def test_the_name_tells_settings_apart():
    names = {Sampling().name, Sampling(0.0).name, Sampling(1.0, 0.9).name, Sampling(1.0, 1.0, 8).name}
    assert len(names) == 4
