"""The parts of a step that need no rollout: schedule, packing, timing, the update against a gradient by hand."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch")

import small_training
import torch

from rover_train.rl.forward import chosen, log_probs, tensors
from rover_train.rl.learn import Learner, Reference
from rover_train.rl.opd import Distiller
from rover_train.rl.packing import Piece, minibatches, passes, silent
from rover_train.rl.schedule import rollout_seed, tasks_of
from rover_train.rl.settings import LossSettings, RlSettings
from rover_train.rl.timing import Timing
from rover_train.rl.update import Updater, scored
from rover_train.rows import Row, WeightedRow
from rover_train.train import optim
from rover_train.train.device import place
from rover_train.train.errors import NotFinite
from rover_train.train.settings import ModelSettings, OptimSettings


def test_tasks_of_a_pass_come_once_and_in_an_order_of_the_seed():
    names = [f"p{n}" for n in range(9)]
    one_pass = [tasks_of(names, step, 4, seed=1) for step in range(2)]
    flat = [name for some in one_pass for name in some]
    assert len(flat) == len(set(flat)) == 8
    assert tasks_of(list(reversed(names)), 1, 4, seed=1) == one_pass[1]
    assert tasks_of(names, 0, 4, seed=2) != one_pass[0]
    assert sorted(tasks_of(names, 5, 40, seed=1)) == names
    seen = {name for step in range(20) for name in tasks_of(names, step, 4, seed=1)}
    assert seen == set(names)


def test_seeds_differ_by_everything_that_names_a_rollout():
    base = (1, 2, "p", 3, 0)
    others = [(9, 2, "p", 3, 0), (1, 9, "p", 3, 0), (1, 2, "q", 3, 0), (1, 2, "p", 9, 0), (1, 2, "p", 3, 1)]
    seeds = [rollout_seed(*parts) for parts in (base, *others)]
    assert len(set(seeds)) == len(seeds)
    assert rollout_seed(*base) == seeds[0]


def piece(length: int, advantage: float = 0.0, rollout: str = "r") -> Piece:
    row = Row(list(range(1, length + 1)), [0] + [1] * (length - 1), [-1] + [0] * (length - 1), [0.0] * length, rollout)
    return Piece(WeightedRow(row, [0.0] + [advantage] * (length - 1)))


def test_minibatches_keep_rollouts_whole_and_passes_keep_to_their_tokens():
    rollouts = [[piece(n + 2, rollout=str(n)), piece(3, rollout=str(n))] for n in range(7)]
    dealt = minibatches(rollouts, 3, seed=5)
    assert sorted(len(some) for some in dealt) == [2, 2, 3]
    assert sorted(r[0].weighted.row.rollout for some in dealt for r in some) == [str(n) for n in range(7)]
    assert dealt == minibatches(rollouts, 3, seed=5)
    assert len(minibatches(rollouts, 100, seed=5)) == 7
    rows = [p for rollout in rollouts for p in rollout]
    cut = passes(rows, 12)
    assert sum(map(len, cut)) == len(rows)
    assert all(max(p.length for p in some) * len(some) <= 12 for some in cut)
    assert [len(some) for some in passes([piece(50)], 12)] == [1]


def test_a_rollout_without_advantage_is_silent():
    assert silent([piece(4), piece(5)])
    assert not silent([piece(4), piece(5, 0.1)])


def test_inner_parts_do_not_count_for_the_outer_one():
    now = iter([0.0, 1.0, 2.0, 5.0, 6.0, 10.0])
    timing = Timing(lambda: next(now))
    with timing.part("update"), timing.part("credit"):
        pass
    assert timing.seconds == {"credit": 3.0, "update": 2.0}
    assert timing.report()["rest"] == 5.0


def rows() -> list[Row]:
    """Three rows of two turns each, with a gap that somebody else wrote."""
    out = []
    for n in range(3):
        ids = [(7 * n + 3 * k) % 60 for k in range(9 + n)]
        turn = [-1, -1, 0, 0, -1, 1, 1, *([1] * (len(ids) - 7))]
        out.append(Row(ids, [int(t >= 0) for t in turn], turn, [0.0] * len(ids), f"r{n}", f"p{n}"))
    return out


def own(model: torch.nn.Module, some: list[Row]) -> list[Row]:
    """The rows with the model's own log-probabilities, as a sampler of the same weights would have given."""
    found = scored(model, [Piece(WeightedRow(r, [0.0] * len(r.ids))) for r in some], 1.0, 1000)
    return [Row(r.ids, r.loss_mask, r.turn_id, lp, r.rollout, r.package) for r, lp in zip(some, found, strict=True)]


def updater(model: torch.nn.Module, loss: LossSettings, **rl: object) -> Updater:
    settings = RlSettings.model_validate({"steps": 1, "minibatches": 1, **rl})
    optimiser = optim.build(model, OptimSettings(lr=1e-3))
    return Updater(model, optimiser, loss, settings, seed=0, placed=place(model, ModelSettings(device="cpu")))


def weighted(some: list[Row], advantages: list[float]) -> list[list[Piece]]:
    return [[Piece(WeightedRow(r, [a * m for m in r.loss_mask]))] for r, a in zip(some, advantages, strict=True)]


def test_padding_changes_no_log_probability():
    model = small_training.model().eval()
    together = own(model, rows())
    alone = [own(model, [row])[0] for row in rows()]
    for one, other in zip(together, alone, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    assert all(lp < 0 for row in alone for lp, m in zip(row.logprobs, row.loss_mask, strict=True) if m)


def test_the_gradient_at_ratio_one_is_that_of_advantage_times_log_probability():
    """At rho = 1 nothing is clipped, so the gradient of the loss is -sum A grad log p, in one pass or in many."""
    model = small_training.model()
    model.config.attention_dropout = 0.0
    some, advantages = own(model.eval(), rows()), [0.5, -0.25, 0.125]
    model.zero_grad()
    for row, a in zip(some, advantages, strict=True):
        batch = tensors([Piece(WeightedRow(row, [0.0] * len(row.ids)))])
        (-a * chosen(log_probs(model, batch, 1.0), batch).sum()).backward()
    norm = math.sqrt(sum(float((p.grad**2).sum()) for p in model.parameters() if p.grad is not None))
    for tokens in (1000, 12):
        again = small_training.model()
        for layer in again.model.layers:
            layer.self_attn.attention_dropout = 0.0
        said = updater(again, LossSettings(), pass_tokens=tokens).update(weighted(some, advantages), 0)
        assert said["grad_norm"] == pytest.approx(norm, rel=1e-4)
        assert said["clip_share"] == 0.0
        assert said["kl"] == pytest.approx(0.0, abs=1e-6)
        assert said["updates"] == 1


def test_minibatches_are_means_over_their_own_rollouts():
    """Two equal rollouts in two minibatches: each update has the gradient of the whole batch's mean."""
    row = own(small_training.model().eval(), rows()[:1])[0]
    both = [row, Row(row.ids, row.loss_mask, row.turn_id, row.logprobs, "again", row.package)]
    norms = []
    for count in (1, 2):
        model = small_training.model()
        for layer in model.model.layers:
            layer.self_attn.attention_dropout = 0.0
        made = updater(model, LossSettings(), minibatches=count)
        made.optimiser.settings = OptimSettings(lr=1e-30)
        for part in made.optimiser.parts:
            for group in part.param_groups:
                group["peak"] = 0.0
        norms.append(made.update(weighted(both, [0.5, 0.5]), 0)["grad_norm"])
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)


def test_no_advantage_is_no_update():
    model = small_training.model()
    before = [p.detach().clone() for p in model.parameters()]
    said = updater(model, LossSettings()).update(weighted(rows(), [0.0, 0.0, 0.0]), 0)
    assert said["updates"] == said["trained_tokens"] == 0
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_a_loss_that_is_no_number_names_the_batch_and_leaves_the_weights():
    model = small_training.model()
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(NotFinite, match=r"step 5, batch of p\d"):
        updater(model, LossSettings()).update(weighted(rows(), [1e38, math.inf, 1.0]), 4)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_old_log_probabilities_of_another_engine_are_computed_again():
    """The sampler's are off by 0.1 a token: ratios at the first update are 1 all the same, and weights are e^0.1."""
    model = small_training.model()
    true = own(model.eval(), rows())
    off = [
        Row(r.ids, r.loss_mask, r.turn_id, [lp - 0.1 * m for lp, m in zip(r.logprobs, r.loss_mask, strict=True)])
        for r in true
    ]
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.0
    learner = Learner(updater(model, LossSettings()), exact=False, reference=None)
    said = learner(weighted(off, [0.5, -0.25, 0.125]), 0)
    assert said["sampler_gap"] == pytest.approx(0.1, abs=1e-4)
    assert said["importance"] == pytest.approx(math.exp(0.1), abs=1e-4)
    assert said["kl"] == pytest.approx(0.0, abs=1e-6)


def test_the_reference_stays_what_the_model_was():
    model = small_training.model()
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.0
    some = own(model.eval(), rows())
    pieces = [
        [p._replace(weights=[0.01 * m for m in p.weighted.row.loss_mask]) for p in rollout]
        for rollout in weighted(some, [0.5, -0.25, 0.125])
    ]
    learner = Learner(updater(model, LossSettings(kl=0.5)), exact=True, reference=Reference(model))
    first = learner(pieces, 0)
    second = learner(pieces, 0)
    assert first["kl_reference"] == pytest.approx(0.0, abs=1e-6)
    assert second["kl_reference"] > 1e-6


def test_distillation_closes_the_gap_to_the_teacher_at_the_student_s_tokens():
    model, teacher = small_training.model(0), small_training.model(1)
    made = Distiller(
        teacher, model, optim.build(model, OptimSettings(lr=2e-2)), LossSettings(), RlSettings(steps=1, minibatches=1),
        seed=0, placed=place(model, ModelSettings(device="cpu")),
    )  # fmt: skip
    rollouts = [[Piece(WeightedRow(r, [0.0] * len(r.ids)), [m / 24 for m in r.loss_mask])] for r in rows()]
    gaps = [made.update(rollouts, step)["kl_teacher"] for step in range(40)]
    assert gaps[0] > 0
    assert gaps[-1] < 0.3 * gaps[0]
