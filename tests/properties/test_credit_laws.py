"""Laws of credit on any group: conserved, bounded, local harm, indifferent to order, withheld by H, none where tied."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rover_train.credit import Credit, Group, RolloutEvidence, TurnEvidence, names, scheme

STATUS = st.none() | st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]) | st.floats(0, 1)
SHARE = st.floats(0, 1)
TURNS = 6
MANY = settings(max_examples=40, deadline=None)


@st.composite
def rollouts(draw: st.DrawFn, criteria: int) -> RolloutEvidence:
    count = draw(st.integers(0, TURNS))
    trees = draw(st.lists(st.tuples(*[STATUS] * criteria), min_size=count + 1, max_size=count + 1))
    turns = tuple(
        TurnEvidence(
            before=trees[t],
            after=trees[t + 1],
            uses=tuple(draw(st.sets(st.integers(0, t - 1)))) if t else (),
            cost=float(draw(st.integers(0, 2))),
            tokens=draw(st.integers(1, 30)),
            anchor=draw(st.sampled_from(["", "a", "b", "c"])),
        )
        for t in range(count)
    )
    intact = draw(st.sampled_from([1, 1, 0]))
    gate = draw(st.sampled_from([1, 0])) if intact else 0
    return RolloutEvidence(outcome=draw(SHARE), gate=gate, intact=intact, turns=turns)


@st.composite
def groups(draw: st.DrawFn) -> Group:
    raw = draw(st.lists(st.floats(0.01, 5), min_size=1, max_size=4))
    whole = math.fsum(raw)
    return Group(tuple(w / whole for w in raw), tuple(draw(st.lists(rollouts(len(raw)), min_size=1, max_size=5))))


SETTINGS = st.fixed_dictionaries(
    {
        "lambda": SHARE,
        "alpha": st.floats(0, 8),
        "eta": SHARE,
        "keep": st.floats(0.5, 1),
        "std": st.sampled_from(["sample", "population"]),
        "transitive": st.booleans(),
        "centred": st.booleans(),
    }
)
ALL = pytest.mark.parametrize("name", names())
VTCA = pytest.mark.parametrize("name", ["vtca-grpo", "vtca-even"])


def credit(name: str, group: Group, **options: object) -> Credit:
    (found,) = scheme(name, **options).assign([group])
    return found


@VTCA
@given(group=groups(), options=SETTINGS)
@MANY
def test_credit_is_conserved(name: str, group: Group, options: dict[str, object]) -> None:
    found = credit(name, group, **options)
    for made, delta in zip(found.increments, found.delta, strict=True):
        assert math.fsum(delta) == pytest.approx(math.fsum(made), rel=0, abs=1e-12)


@VTCA
@given(group=groups(), options=SETTINGS)
@MANY
def test_credit_is_bounded(name: str, group: Group, options: dict[str, object]) -> None:
    """|p| <= 1. No turn gets more than all positive increments of the rollout, none less than the negative ones."""
    found = credit(name, group, **options)
    for made, delta in zip(found.increments, found.delta, strict=True):
        assert all(abs(p) <= 1 + 1e-12 for p in made)
        most, least = math.fsum(p for p in made if p > 0), math.fsum(p for p in made if p < 0)
        assert all(least - 1e-12 <= d <= most + 1e-12 for d in delta)


@given(group=groups(), options=SETTINGS)
@MANY
def test_harm_is_local(group: Group, options: dict[str, object]) -> None:
    """A turn's negative increment reaches no other turn: without it only this turn's delta changes, by just that."""
    found = credit("vtca-grpo", group, **options)
    for r, rollout in enumerate(group.rollouts):
        for t, p in enumerate(found.increments[r]):
            if p >= 0:
                continue
            turns = list(rollout.turns)
            turns[t] = replace(turns[t], after=turns[t].before)
            mended = Group(group.weights, (replace(rollout, turns=tuple(turns)),))
            delta = credit("vtca-grpo", mended, **options).delta[0]
            assert delta[t] == pytest.approx(found.delta[r][t] - p, rel=0, abs=1e-12)
            assert delta[:t] + delta[t + 1 :] == found.delta[r][:t] + found.delta[r][t + 1 :]


@given(group=groups(), options=SETTINGS)
@MANY
def test_a_producing_turn_keeps_at_least_half(group: Group, options: dict[str, object]) -> None:
    found = credit("vtca-grpo", group, **options)
    for made, delta in zip(found.increments, found.delta, strict=True):
        assert all(d >= 0.5 * p - 1e-12 for p, d in zip(made, delta, strict=True) if p > 0)


@ALL
@given(group=groups(), options=SETTINGS, data=st.data())
@MANY
def test_order_of_rollouts_does_not_matter(
    name: str, group: Group, options: dict[str, object], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(group.rollouts))))
    found = credit(name, group, **options)
    turned = credit(name, Group(group.weights, tuple(group.rollouts[n] for n in order)), **options)
    assert turned.turns == tuple(found.turns[n] for n in order)
    assert turned.rewards == tuple(found.rewards[n] for n in order)


@VTCA
@given(group=groups(), options=SETTINGS)
@MANY
def test_broken_rollouts_get_no_progress(name: str, group: Group, options: dict[str, object]) -> None:
    """With H = 0 the advantage is that of alpha = 0."""
    found, without = credit(name, group, **options), credit(name, group, **{**options, "alpha": 0})
    for r, rollout in enumerate(group.rollouts):
        if not rollout.intact:
            assert found.turns[r] == without.turns[r]


@VTCA
@given(batch=st.lists(groups(), max_size=3), options=SETTINGS)
@MANY
def test_without_alpha_and_eta_it_is_grpo_bit_for_bit(
    name: str, batch: list[Group], options: dict[str, object]
) -> None:
    options = {**options, "alpha": 0, "eta": 0}
    ours, theirs = scheme(name, **options).assign(batch), scheme("grpo", **options).assign(batch)
    bits = [[a.hex() for turns in c.turns for a in turns] for c in ours]
    assert bits == [[a.hex() for turns in c.turns for a in turns] for c in theirs]


@pytest.mark.parametrize("name", ["grpo", "dr-grpo", "gdpo", "gigpo"])
@given(group=groups(), outcome=SHARE, size=st.integers(1, 6), std=st.sampled_from(["sample", "population"]))
@MANY
def test_ties_have_no_advantage(name: str, group: Group, outcome: float, size: int, std: str) -> None:
    tied = replace(group.rollouts[0], outcome=outcome, gate=1)
    found = credit(name, Group(group.weights, (tied,) * size), std=std, gamma=1.0, eps=0)
    assert found.trajectory == (0.0,) * size
    assert all(a == 0.0 for turns in found.turns for a in turns)


@ALL
@given(batch=st.lists(groups(), max_size=3), options=SETTINGS)
@MANY
def test_advantages_are_numbers_and_rewards_are_shares(
    name: str, batch: list[Group], options: dict[str, object]
) -> None:
    for found, group in zip(scheme(name, **options).assign(batch), batch, strict=True):
        assert all(0 <= r <= 1 for r in found.rewards)
        assert all(math.isfinite(a) for turns in found.turns for a in turns)
        assert [len(t) for t in found.turns] == [len(r.turns) for r in group.rollouts]


@pytest.mark.parametrize("name", ["grpo", "dr-grpo"])
@given(group=groups(), options=SETTINGS)
@MANY
def test_trajectory_advantages_add_to_nothing(name: str, group: Group, options: dict[str, object]) -> None:
    found = credit(name, group, **options)
    assert math.fsum(found.trajectory) == pytest.approx(0, abs=1e-6)
