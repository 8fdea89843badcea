"""Credit schemes on small groups. Expected values are worked out in the docstrings."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from rover_store.errors import UsageError
from rover_train.credit import Credit, CreditScheme, Group, RolloutEvidence, TurnEvidence, names, scheme
from rover_train.credit.registry import aggregation
from rover_train.credit.settings import CreditSettings


def rollout(outcome: float, turns: int = 2, **more: Any) -> RolloutEvidence:
    """A rollout without costs, whose turns move nothing."""
    some = more.pop("evidence", None) or tuple(TurnEvidence(before=(0.0,), after=(0.0,)) for _ in range(turns))
    return RolloutEvidence(outcome=outcome, gate=more.pop("gate", 1), intact=more.pop("intact", 1), turns=some, **more)


def group(*rollouts: RolloutEvidence) -> Group:
    return Group((1.0,), rollouts)


def only(name: str, one: Group, **settings: Any) -> Credit:
    (credit,) = scheme(name, **settings).assign([one])
    return credit


def moving(*statuses: float, uses: dict[int, tuple[int, ...]] | None = None, cost: float = 0.0) -> Any:
    """Turns of one criterion that goes through these statuses."""
    return tuple(
        TurnEvidence(before=(a,), after=(b,), uses=(uses or {}).get(n, ()), cost=cost)
        for n, (a, b) in enumerate(pairwise(statuses))
    )


def test_grpo() -> None:
    """Rewards 1 and 0 (lambda 0): mean 0.5; with n - 1 std = sqrt(0.25 + 0.25) = 0.70711, with n std = 0.5.
    So A = +-0.5 / 0.70711 = +-0.70711, and +-1."""
    two = group(rollout(1.0), rollout(0.0))
    sample = only("grpo", two, lam=0, eps=0)
    assert sample.rewards == (1.0, 0.0)
    assert sample.trajectory == pytest.approx((math.sqrt(0.5), -math.sqrt(0.5)))
    assert sample.turns == tuple((a, a) for a in sample.trajectory)
    assert only("grpo", two, lam=0, eps=0, std="population").trajectory == pytest.approx((1.0, -1.0))


def test_reward() -> None:
    """R = G (0.9 S_B + 0.1 S_A): one error in two turns gives S_A = 0.5, so 0.9 x 0.5 + 0.1 x 0.5 = 0.5; three errors
    in two turns give S_A = 0 and R = 0.45; a closed gate gives 0."""
    one_error = (TurnEvidence((0.0,), (0.0,), cost=1.0), TurnEvidence((0.0,), (0.0,)))
    three = (TurnEvidence((0.0,), (0.0,), cost=2.0), TurnEvidence((0.0,), (0.0,), cost=1.0))
    credit = only(
        "grpo", group(rollout(0.5, evidence=one_error), rollout(0.5, evidence=three), rollout(1.0, gate=0)), lam=0.1
    )
    assert credit.rewards == pytest.approx((0.5, 0.45, 0.0))


def test_recorded_trace_score_is_taken() -> None:
    assert only("grpo", group(rollout(0.0, trace=0.25), rollout(0.0)), lam=1).rewards == (0.25, 1.0)


def test_dr_grpo() -> None:
    """Rewards 1, 0, 0, 0: mean 0.25, A = 0.75 and -0.25 three times."""
    credit = only("dr-grpo", group(rollout(1.0), rollout(0.0), rollout(0.0), rollout(0.0)), lam=0)
    assert credit.trajectory == (0.75, -0.25, -0.25, -0.25)


def test_gdpo_weighs_components_alike() -> None:
    """Outcomes 1, 0 and traces 0, 0.1 (std with n): each component normalises to +-1, so with weights 0.5 and 0.5 the
    sums cancel: S = 0.5 - 0.5 = 0 for both, tied. GRPO of the sum 0.5, 0.05 would prefer the first."""
    both = group(rollout(1.0, trace=0.0), rollout(0.0, trace=0.1))
    weights = {"outcome": 0.5, "trace": 0.5}
    assert only("gdpo", both, eps=0, std="population", components=weights).trajectory == (0.0, 0.0)
    assert only("grpo", both, eps=0, std="population", lam=0.5).trajectory == pytest.approx((1.0, -1.0))


def test_gdpo_whitens_over_the_batch() -> None:
    """Outcome alone, std with n. Group one (1, 0): +-1. Group two is tied: 0, 0. Over the batch 1, -1, 0, 0 the mean is
    0 and the std sqrt(2 / 4) = 0.70711, so A = 1.41421, -1.41421, 0, 0."""
    made = scheme("gdpo", lam=0, eps=0, std="population")
    first, second = made.assign([group(rollout(1.0), rollout(0.0)), group(rollout(1.0), rollout(1.0))])
    assert first.trajectory == pytest.approx((math.sqrt(2), -math.sqrt(2)))
    assert second.trajectory == (0.0, 0.0)


def test_gdpo_gives_a_tied_group_no_rounding_of_the_others() -> None:
    """The sums of 1, 0, 0.3, 0.7 add to 1e-16 or so, not to 0; nothing of that may reach the group that is tied."""
    several, ties = group(*(rollout(x) for x in (1.0, 0.0, 0.3, 0.7, 0.1))), group(*(rollout(1.0) for _ in range(3)))
    for std in ("sample", "population"):
        first, second = scheme("gdpo", std=std).assign([several, ties])
        assert second.trajectory == (0.0, 0.0, 0.0)
        assert all(first.trajectory)


def test_gdpo_names_a_component_that_is_missing() -> None:
    with pytest.raises(UsageError, match="no reward component 'speed'"):
        only("gdpo", group(rollout(1.0), rollout(0.0)), components={"speed": 1.0})


def test_gigpo() -> None:
    """R = 1 and 0 (lambda 0), gamma 0.5, F 1. Trajectories: +-0.5. Both begin in the same state: Q = 0.5 x 1 = 0.5 and
    0, so steps +-0.25. Their second states differ and are met once: step 0. With omega 2: 0.5 + 0.5, 0.5, -0.5 - 0.5,
    -0.5."""

    def turns(second: str) -> tuple[TurnEvidence, ...]:
        return (TurnEvidence(anchor="start"), TurnEvidence(anchor=second))

    both = Group((), (rollout(1.0, evidence=turns("left")), rollout(0.0, evidence=turns("right"))))
    assert only("gigpo", both, lam=0, gamma=0.5, omega=2).turns == ((1.0, 0.5), (-1.0, -0.5))
    assert only("gigpo", both, lam=0, gamma=0.5, omega=0).turns == ((0.5, 0.5), (-0.5, -0.5))


def test_gigpo_with_deviation_and_omega_zero_is_grpo() -> None:
    both = group(rollout(1.0), rollout(0.5), rollout(0.0))
    assert only("gigpo", both, omega=0, norm="std").turns == only("grpo", both).turns


def test_gigpo_turns_without_a_known_state_are_not_compared() -> None:
    both = group(rollout(1.0), rollout(0.0))
    assert only("gigpo", both, lam=0).turns == ((0.5, 0.5), (-0.5, -0.5))


def test_vtca_shares_with_prerequisites() -> None:
    """Statuses 0, 0, 0, 1: turn 2 makes p = 1 and used turns 0 and 1. keep 0.6: it keeps 0.6, each of them gets 0.2.
    alpha 2, tied rewards (A = 0): 0.4, 0.4, 1.2. The rollout that moves nothing gets 0."""
    one = rollout(1.0, evidence=moving(0, 0, 0, 1, uses={2: (0, 1)}))
    credit = only("vtca-grpo", group(one, rollout(1.0)), alpha=2, eta=0.3, keep=0.6)
    assert credit.increments == ((0.0, 0.0, 1.0), (0.0, 0.0))
    assert credit.delta[0] == pytest.approx((0.2, 0.2, 0.6))
    assert credit.turns[0] == pytest.approx((0.4, 0.4, 1.2))
    assert credit.turns[1] == (0.0, 0.0)


def test_vtca_harm_stays_on_its_turn() -> None:
    """Statuses 1, 1, 0.25: turn 1 used turn 0 and lost 0.75, all of it its own."""
    one = rollout(0.0, evidence=moving(1, 1, 0.25, uses={1: (0,)}))
    assert only("vtca-grpo", group(one, rollout(0.0))).delta[0] == (0.0, -0.75)


def test_vtca_trace_cost_is_local() -> None:
    """eta 0.3, one turn with cost 2: -0.6 there. Centred: costs 2, 0 and 0, 0 have means 1 and 0, and 0.5 over the
    rollouts; -0.3 x (2 - 0.5) = -0.45 and +0.15 elsewhere. All rewards are tied at 0: G = 0."""
    costly = (TurnEvidence((0.0,), (0.0,), cost=2.0), TurnEvidence((0.0,), (0.0,)))
    both = group(rollout(0.0, gate=0, evidence=costly), rollout(0.0, gate=0))
    assert only("vtca-grpo", both).turns == (pytest.approx((-0.6, 0.0)), (0.0, 0.0))
    centred = only("vtca-grpo", both, centred=True)
    assert centred.turns == (pytest.approx((-0.45, 0.15)), pytest.approx((0.15, 0.15)))


def test_vtca_broken_integrity_has_no_progress() -> None:
    one = rollout(1.0, gate=0, intact=0, evidence=moving(0, 1, 0.5))
    credit = only("vtca-grpo", group(one, rollout(0.0)))
    assert credit.delta[0] == (1.0, -0.5)
    assert credit.turns[0] == (credit.trajectory[0],) * 2


def test_vtca_unsupported_on_one_side_is_no_progress() -> None:
    """Two criteria of weight 0.5: the first is not supported before the turn, the second goes 0 to 1: p = 0.5."""
    turn = TurnEvidence(before=(None, 0.0), after=(1.0, 1.0))
    one = RolloutEvidence(1.0, 1, 1, (turn,))
    (credit,) = scheme("vtca-grpo").assign([Group((0.5, 0.5), (one,))])
    assert credit.increments == ((0.5,),)


def test_vtca_transitive_use() -> None:
    """Turn 2 used turn 1, which used turn 0. Directly turn 1 gets 0.5; through the chain turns 0 and 1 get 0.25."""
    one = rollout(1.0, evidence=moving(0, 0, 0, 1, uses={1: (0,), 2: (1,)}))
    assert only("vtca-grpo", group(one)).delta[0] == (0.0, 0.5, 0.5)
    assert only("vtca-grpo", group(one), transitive=True).delta[0] == (0.25, 0.25, 0.5)


def test_vtca_even_spreads_the_same_sum() -> None:
    """Increments 0, 0, 1, -0.4 add to 0.6: 0.15 for each of four turns."""
    one = rollout(0.6, evidence=moving(0, 0, 0, 1, 0.6, uses={2: (0,)}))
    placed, spread = only("vtca-grpo", group(one)), only("vtca-even", group(one))
    assert spread.increments == placed.increments
    assert spread.delta[0] == pytest.approx((0.15,) * 4)
    assert sum(placed.delta[0]) == pytest.approx(sum(spread.delta[0]))


@pytest.mark.parametrize("name", names())
def test_group_of_one_and_ties_have_no_advantage(name: str) -> None:
    """Rewards of 0.1 three times have a mean that is not exactly 0.1; nothing of that may show."""
    made = scheme(name, std="population", eps=0)
    one, ties = made.assign([group(rollout(1.0)), group(*[rollout(0.1) for _ in range(3)])])
    assert one.turns == ((0.0, 0.0),)
    assert ties.turns == ((0.0, 0.0),) * 3


@pytest.mark.parametrize("name", names())
def test_every_scheme_keeps_the_protocol(name: str) -> None:
    made = scheme(name, **{"lambda": 0.2, "alpha": 1})
    assert isinstance(made, CreditScheme)
    assert made.name == name
    empty, short = made.assign([Group((1.0,), ()), group(rollout(0.3, turns=0), rollout(0.7, turns=1))])
    assert empty.turns == ()
    assert [len(t) for t in short.turns] == [0, 1]
    assert made.assign([]) == []


def test_unknown_names_and_settings() -> None:
    with pytest.raises(UsageError, match="no credit scheme is called 'ppo'"):
        scheme("ppo")
    with pytest.raises(UsageError, match="credit: alfa"):
        scheme("vtca-grpo", alfa=1)
    with pytest.raises(UsageError, match=r"credit: keep: .*0\.5"):
        scheme("vtca-grpo", keep=0.4)


def test_a_turn_cannot_use_itself_or_a_later_one() -> None:
    one = rollout(1.0, evidence=moving(0, 1, uses={0: (0,)}))
    with pytest.raises(ValueError, match="only turns before it"):
        only("vtca-grpo", group(one))


def test_statuses_fit_the_criteria() -> None:
    with pytest.raises(ValueError, match="differ in number"):
        only("vtca-grpo", Group((0.5, 0.5), (rollout(1.0),)))


def test_aggregation_of_schemes() -> None:
    """By turn for every method but dr-grpo; the settings have the last word."""
    default = CreditSettings()
    found = {name: aggregation(scheme(name), default) for name in names()}
    assert found == {**dict.fromkeys(names(), "turn"), "dr-grpo": "constant"}
    assert aggregation(scheme("dr-grpo"), CreditSettings(aggregation="token")) == "token"
