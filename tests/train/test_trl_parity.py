"""The clipped loss, CISPO and KL3 agree with TRL's GRPO loss, value and gradient, where TRL is installed."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
trl = pytest.importorskip("trl", reason="TRL's pins clash with rover's; it lives in an environment of its own")

from rover_train.losses.cispo import cispo  # noqa: E402
from rover_train.losses.clip import clipped  # noqa: E402
from rover_train.losses.kl import kl_to_reference  # noqa: E402

B, T, VOCABULARY, PROMPT = 3, 7, 11, 2


class Table(torch.nn.Module):
    """A model that has a distribution for each position, whatever it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(torch.randn(B, T, VOCABULARY, dtype=torch.float64))

    def log_p(self) -> torch.Tensor:
        return self.logits.log_softmax(-1)

    def forward(self, input_ids: torch.Tensor, **_: Any) -> SimpleNamespace:
        log_p = self.log_p()
        chosen = log_p.gather(-1, input_ids[:, PROMPT:, None])[..., 0]
        return SimpleNamespace(log_probs=chosen, entropy=-(log_p.exp() * log_p).sum(-1))


def trainer(model: Table, **settings: Any) -> Any:
    """TRL's trainer with what its loss reads, without what its construction needs."""
    from accelerate import Accelerator
    from trl import GRPOTrainer

    made = GRPOTrainer.__new__(GRPOTrainer)
    args = SimpleNamespace(delta=settings.pop("delta", None), use_bias_correction_kl=False, steps_per_generation=1)
    fields = {
        "accelerator": Accelerator(cpu=True), "model": model, "args": args, "aux_loss_enabled": False,
        "top_entropy_quantile": 1.0, "off_policy_mask_threshold": None, "importance_sampling_level": "token",
        "beta": 0.0, "loss_type": "grpo", "epsilon_low": 0.2, "epsilon_high": 0.3, "use_vllm": False,
        "max_completion_length": T, "current_gradient_accumulation_steps": 1, "_entropy_bonus_enabled": False,
        "_metrics": {"train": defaultdict(list), "eval": defaultdict(list)}, **settings,
    }  # fmt: skip
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


@pytest.fixture
def batch() -> dict[str, torch.Tensor]:
    torch.manual_seed(5)
    mask = torch.ones(B, T, dtype=torch.long)
    mask[0, 5:] = mask[2, 3:] = 0
    real = torch.float64
    return {
        "prompt_ids": torch.zeros(B, PROMPT, dtype=torch.long), "prompt_mask": torch.ones(B, PROMPT, dtype=torch.long),
        "completion_ids": torch.randint(0, VOCABULARY, (B, T)), "completion_mask": mask,
        "advantages": torch.randn(B, T, dtype=real), "old_per_token_logps": -2.5 + torch.randn(B, T, dtype=real),
        "ref_per_token_logps": -2.5 + torch.randn(B, T, dtype=real), "num_items_in_batch": mask.sum(),
    }  # fmt: skip


def both(model: Table, batch: dict[str, torch.Tensor], theirs: Any, ours: torch.Tensor) -> None:
    """Compare a loss of TRL with the sum of ours over tokens: values, and gradients at the logits."""
    loss = theirs._compute_loss(model, batch)
    (wanted,) = torch.autograd.grad(loss, model.logits)
    (found,) = torch.autograd.grad(ours.sum(), model.logits)
    assert ours.sum().item() == pytest.approx(loss.item(), rel=1e-9)
    assert torch.allclose(found, wanted, rtol=1e-9, atol=1e-12)
    assert wanted.abs().max() > 1e-3


def chosen(model: Table, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return model.log_p().gather(-1, batch["completion_ids"][..., None])[..., 0]


def mean_by_rollout(mask: torch.Tensor) -> torch.Tensor:
    return mask.double() / mask.sum(-1, keepdim=True) / B


@pytest.mark.parametrize("delta", [None, 1.6])
def test_clipped(batch: dict[str, torch.Tensor], delta: float | None) -> None:
    model, mask = Table(), batch["completion_mask"]
    weighted = batch["advantages"] * mean_by_rollout(mask)
    ours, _ = clipped(
        chosen(model, batch), batch["old_per_token_logps"], weighted, clip_low=0.2, clip_high=0.3, dual=delta, mask=mask
    )
    both(model, batch, trainer(model, delta=delta), ours)


def test_constant_length(batch: dict[str, torch.Tensor]) -> None:
    model, mask = Table(), batch["completion_mask"]
    ours, _ = clipped(
        chosen(model, batch), batch["old_per_token_logps"], batch["advantages"] / (B * T), clip_high=0.3, mask=mask
    )
    both(model, batch, trainer(model, loss_type="dr_grpo"), ours)


def test_cispo(batch: dict[str, torch.Tensor]) -> None:
    """TRL's epsilon_high bounds the ratio itself, ours what it exceeds 1 by."""
    model, mask = Table(), batch["completion_mask"]
    weighted = batch["advantages"] / mask.sum()
    ours, _ = cispo(chosen(model, batch), batch["old_per_token_logps"], weighted, clip_high=1.5, mask=mask)
    both(model, batch, trainer(model, loss_type="cispo", epsilon_high=2.5), ours)


def test_kl_to_the_reference(batch: dict[str, torch.Tensor]) -> None:
    model, mask = Table(), batch["completion_mask"]
    weight = mean_by_rollout(mask)
    logp = chosen(model, batch)
    surrogate, _ = clipped(
        logp, batch["old_per_token_logps"], batch["advantages"] * weight, clip_high=0.3, mask=mask
    )
    penalty, _ = kl_to_reference(logp, batch["ref_per_token_logps"], 0.04 * weight, mask=mask)
    both(model, batch, trainer(model, beta=0.04), surrogate + penalty)
