"""Losses on single tokens. Expected values are worked out in the docstrings."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from rover_train.credit import Credit, weighted  # noqa: E402
from rover_train.losses.cispo import cispo  # noqa: E402
from rover_train.losses.clip import clipped  # noqa: E402
from rover_train.losses.distil import reverse_kl, sampled_advantage, sampled_reverse_kl  # noqa: E402
from rover_train.losses.importance import importance  # noqa: E402
from rover_train.losses.kl import entropy, kl3, kl_to_reference  # noqa: E402
from rover_train.rows import Row  # noqa: E402


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def logs(*values: float) -> torch.Tensor:
    """Logarithms, as a leaf that takes gradients."""
    return tensor(*values).log().requires_grad_()


def close(*values: float) -> object:
    return pytest.approx(list(values), rel=1e-12, abs=1e-12)


def test_clipped() -> None:
    """Old probability 0.5 everywhere; low 0.2, high 0.3.

    p     rho  A    rho A  clip(rho) A  loss   gradient d loss / d log p = -rho A, 0 where clipped
    0.75  1.5   2    3.0    2.6         -2.6    0
    0.3   0.6   2    1.2    1.6         -1.2   -1.2
    0.75  1.5  -1   -1.5   -1.3          1.5    1.5
    0.3   0.6  -1   -0.6   -0.8          0.8    0
    Two of four are clipped.
    """
    logp = logs(0.75, 0.3, 0.75, 0.3)
    loss, stats = clipped(logp, logs(0.5, 0.5, 0.5, 0.5), tensor(2, 2, -1, -1), clip_low=0.2, clip_high=0.3)
    assert loss.tolist() == close(-2.6, -1.2, 1.5, 0.8)
    loss.sum().backward()
    assert logp.grad.tolist() == close(0, -1.2, 1.5, 0)
    assert stats["clip_share"] == 0.5
    assert (stats["ratio"], stats["ratio_max"]) == (pytest.approx(1.05), pytest.approx(1.5))
    assert stats["kl"] == pytest.approx((2 * (0.5 - math.log(1.5)) + 2 * (-0.4 - math.log(0.6))) / 4)


def test_old_probabilities_have_no_gradient() -> None:
    old = logs(0.5)
    clipped(logs(0.6), old, tensor(1.0))[0].sum().backward()
    assert old.grad is None


def test_dual_clip() -> None:
    """Old 0.1, p 0.8: rho 8. A = -1: the clipped surrogate is -8, the dual clip 3 bounds it to -3: loss 3, no gradient.
    A = 1: min(8, 1.2) = 1.2 as ever. p 0.2: rho 2 is within the bound: loss 2."""
    logp = logs(0.8, 0.8, 0.2)
    loss, stats = clipped(logp, logs(0.1, 0.1, 0.1), tensor(-1, 1, -1), dual=3.0)
    assert loss.tolist() == close(3, -1.2, 2)
    loss.sum().backward()
    assert logp.grad.tolist() == close(0, 0, 2)
    assert stats["clip_share"] == pytest.approx(2 / 3)


def test_dual_clip_is_a_ratio_above_one() -> None:
    with pytest.raises(ValueError, match="above 1"):
        clipped(logs(0.5), logs(0.5), tensor(-1), dual=0.5)


@pytest.mark.parametrize("dual", [None, 3.0])
def test_a_weight_folds_into_the_advantage(dual: float | None) -> None:
    """The surrogates are positively homogeneous: f(w A) = w f(A)."""
    logp, old = logs(0.9, 0.3, 0.9, 0.02, 0.5), logs(0.1, 0.5, 0.5, 0.5, 0.5)
    advantage, weight = tensor(-1, 2, 3, -2, 0), tensor(0.25, 0.5, 0.125, 2, 1)
    folded = clipped(logp, old, advantage * weight, dual=dual)[0]
    assert folded.tolist() == close(*(clipped(logp, old, advantage, dual=dual)[0] * weight).tolist())
    folded = cispo(logp, old, advantage * weight)[0]
    assert folded.tolist() == close(*(cispo(logp, old, advantage)[0] * weight).tolist())


def test_balanced_by_turn() -> None:
    """One rollout, turns of 2 and 1 tokens with advantages 1 and -2, rho = 1: the mean over tokens, then turns is
    -(1 + -2) / 2 = 0.5; the gradient is -1/4 at each token of the first turn and 1 at the second's."""
    row = Row([1, 2, 3, 4], [0, 1, 1, 1], [-1, 0, 0, 1], [0.0] * 4)
    (one,) = weighted([[row]], [Credit((1.0,), (0.0,), ((1.0, -2.0),))])
    logp = logs(0.1, 0.5, 0.2, 0.3)
    loss, stats = clipped(logp, logp.detach(), tensor(*one.advantage), mask=tensor(*row.loss_mask))
    assert loss.sum().item() == pytest.approx(0.5)
    loss.sum().backward()
    assert logp.grad.tolist() == close(0, -0.25, -0.25, 1)
    assert stats["tokens"] == 3


def test_cispo() -> None:
    """rho 1.5 is clipped to 1.2, 0.6 is kept: losses -1.2 x 2 x log 0.75 and -0.6 x 2 x log 0.3; no gradient is lost:
    -2.4 and -1.2."""
    logp = logs(0.75, 0.3)
    loss, stats = cispo(logp, logs(0.5, 0.5), tensor(2, 2), clip_high=0.2)
    assert loss.tolist() == close(-2.4 * math.log(0.75), -1.2 * math.log(0.3))
    loss.sum().backward()
    assert logp.grad.tolist() == close(-2.4, -1.2)
    assert stats["clip_share"] == 0.5


def test_masked_tokens_have_neither_loss_nor_gradient() -> None:
    """A token that is off may hold anything, even what is no number."""
    logp = tensor(math.log(0.5), math.nan).requires_grad_()
    for loss, stats in (
        clipped(logp, logs(0.5, 0.5), tensor(1, 1), mask=tensor(1, 0)),
        cispo(logp, logs(0.5, 0.5), tensor(1, 1), mask=tensor(1, 0)),
        kl_to_reference(logp, logs(0.5, 0.5), tensor(1, 1), mask=tensor(1, 0)),
    ):
        assert loss[1].item() == 0.0
        assert all(math.isfinite(value) for value in stats.values())


def test_kl3() -> None:
    """p 0.5, reference 0.25: d = log 0.5, KL3 = 0.5 - log 0.5 - 1 = 0.19315. Its gradient is 1 - e^d = 0.5; with
    weight 0.1 the loss is a tenth of both. Equal probabilities give 0."""
    logp = logs(0.5, 0.4)
    loss, stats = kl_to_reference(logp, logs(0.25, 0.4), tensor(0.1, 0.1))
    assert loss.tolist() == close(0.1 * (math.log(2) - 0.5), 0)
    loss.sum().backward()
    assert logp.grad.tolist() == close(0.05, 0)
    assert stats["kl_ref"] == pytest.approx((math.log(2) - 0.5) / 2)
    assert kl3(logs(0.1), logs(0.9)).item() > 0


def test_entropy() -> None:
    """Fair coin: log 2. A sure thing: 0, also where the other has no probability at all."""
    assert entropy(torch.stack([tensor(0.5, 0.5).log(), tensor(1, 0).log()])).tolist() == close(math.log(2), 0)


def test_importance_by_token() -> None:
    """Trainer 0.3, 0.4 over sampler 0.1, 0.5: ratios 3 and 0.8; 3 is cut at 2."""
    weight, stats = importance(logs(0.3, 0.4), logs(0.1, 0.5))
    assert weight.tolist() == close(2, 0.8)
    assert not weight.requires_grad
    assert stats["importance_cut"] == 0.5
    assert stats["importance"] == pytest.approx(1.4)


def test_importance_by_turn() -> None:
    """Ratios 3 and 0.5 make 1.5 for turn 0; 0.8 is turn 1's; a token of no turn weighs 1."""
    old, sampler = logs(0.3, 0.25, 0.4, 0.9), logs(0.1, 0.5, 0.5, 0.1)
    weight, _ = importance(old, sampler, "turn", turn=torch.tensor([0, 0, 1, -1]))
    assert weight.tolist() == close(1.5, 1.5, 0.8, 1)
    two_rows = importance(old.reshape(2, 2), sampler.reshape(2, 2), "turn", turn=torch.tensor([[0, 0], [1, -1]]))[0]
    assert two_rows.flatten().tolist() == close(1.5, 1.5, 0.8, 1)


def test_importance_leaves_out_what_is_masked() -> None:
    weight, _ = importance(
        logs(0.3, 0.25), logs(0.1, 0.5), "turn", turn=torch.tensor([0, 0]), mask=torch.tensor([0, 1])
    )
    assert weight.tolist() == close(0.5, 0.5)


def test_no_importance() -> None:
    assert importance(logs(0.3), logs(0.1), "none")[0].tolist() == [1.0]
    with pytest.raises(ValueError, match="turn of each token"):
        importance(logs(0.3), logs(0.1), "turn")


def test_reverse_kl() -> None:
    """Student 0.5, 0.5 and teacher 0.25, 0.75: 0.5 log 2 + 0.5 log (2/3) = 0.14384. A token that the student never
    says costs nothing, whatever the teacher thinks of it."""
    student = torch.stack([tensor(0.5, 0.5).log(), tensor(1, 0).log()])
    teacher = torch.stack([tensor(0.25, 0.75).log(), tensor(0.5, 0.5).log()])
    loss, stats = reverse_kl(student, teacher)
    expected = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    assert loss.tolist() == close(expected, math.log(2))
    assert stats["kl_teacher"] == pytest.approx((expected + math.log(2)) / 2)


def test_sampled_reverse_kl_is_unbiased() -> None:
    """Over all tokens, each weighted with its probability, value and gradient are those of the exact KL."""
    logits = tensor(0.3, -1.0, 0.7).requires_grad_()
    teacher = tensor(0.2, 0.5, 0.3).log()
    exact, _ = reverse_kl(logits.log_softmax(-1), teacher)
    (wanted,) = torch.autograd.grad(exact, logits)
    log_p = logits.log_softmax(-1)
    sampled, _ = sampled_reverse_kl(log_p, teacher)
    expected = (log_p.exp().detach() * sampled).sum()
    (found,) = torch.autograd.grad(expected, logits)
    assert expected.item() == pytest.approx(exact.item())
    assert found.tolist() == close(*wanted.tolist())


def test_sampled_advantage() -> None:
    """A token that the teacher finds twice as likely has advantage log 2."""
    assert sampled_advantage(logs(0.25), logs(0.5)).tolist() == close(math.log(2))
