"""Supervised fine-tuning: what the loss is, what chooses the checkpoint, when it stops, and that it repeats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import small_training as small  # noqa: E402

from rover_store.errors import UsageError  # noqa: E402
from rover_train.config import Config  # noqa: E402
from rover_train.rows import Row  # noqa: E402
from rover_train.train import checkpoint, optim  # noqa: E402
from rover_train.train import run as runs  # noqa: E402
from rover_train.train.errors import NotFinite  # noqa: E402
from rover_train.train.log import read  # noqa: E402
from rover_train.train.settings import OptimSettings  # noqa: E402
from rover_train.train.sft import Data, Sft  # noqa: E402

torch.set_num_threads(1)


Make = Callable[..., Sft]


@pytest.fixture
def sft(tmp_path: Path) -> Iterator[Make]:
    """Makes a run of fine-tuning without dropout, in a folder of its own."""
    with ExitStack() as stack:
        folders = (tmp_path / f"made-{n}" for n in range(9))

        def make(config: Config, data: Data = small.DATA) -> Sft:
            run = stack.enter_context(runs.begin(next(folders), config, split={}, facts={}))
            run.open_log()
            model = small.model()
            for layer in model.model.layers:
                layer.self_attn.attention_dropout = 0.0
            return Sft(run, model, data, write_model=lambda to: None)

        yield make


def test_the_loss_is_that_of_the_written_tokens_alone(sft: Make) -> None:
    """Cross-entropy of the tokens that the mask names, each foretold by what stands before it, over their number."""
    rows = small.rows(4)
    own = sft(small.config(sft={"batch_size": 4}), Data(rows))
    own.model.eval()
    expected, count = 0.0, 0
    for row in rows:
        logits = own.model(input_ids=torch.tensor([row.ids])).logits[0].detach()
        for at, mask in enumerate(row.loss_mask):
            if mask:
                expected -= float(torch.log_softmax(logits[at - 1], -1)[row.ids[at]])
                count += 1
    own.data = Data(rows, rows)
    with torch.no_grad():
        assert own.validation_loss() == pytest.approx(expected / count, rel=1e-5)


def test_prompt_and_padding_move_nothing(sft: Make) -> None:
    """A batch in which one row is longer has the gradient of its rows alone, each weighted by its tokens."""
    rows = [small.rows(1, 3)[0], small.rows(1, 4)[0]]
    short = rows[1]
    more = [1] * 9  # an observation behind the last written token
    longer = Row(short.ids + more, short.loss_mask + [0] * 9, short.turn_id + [-1] * 9, short.logprobs + [0.0] * 9)
    found = []
    for some in (rows, [rows[0], longer]):
        own = sft(small.config(optim={"clip": 0.0, "name": "adamw"}), Data(some))
        own._update()
        found.append({n: p.detach().clone() for n, p in own.model.named_parameters()})
    for name, weight in found[0].items():
        torch.testing.assert_close(weight, found[1][name], rtol=1e-4, atol=1e-5)


def test_passes_add_up_to_the_batch(sft: Make) -> None:
    """However many passes a batch is cut into, its gradient is the same up to the order of sums."""
    norms = []
    for tokens in (10_000, 40, 1):
        row = sft(small.config(sft={"pass_tokens": tokens, "batch_size": 8}))._update()
        norms.append((row["loss"], row["grad_norm"]))
    assert norms[1] == pytest.approx(norms[0], rel=1e-4)
    assert norms[2] == pytest.approx(norms[0], rel=1e-4)


def test_it_learns(tmp_path: Path) -> None:
    config = small.config(sft={"steps": 60}, eval={"every": 30}, checkpoint={"every": 0})
    state = small.train(tmp_path, config)
    first = read(tmp_path / "log.jsonl")[0]["loss"]
    assert state.finished
    assert state.scores["loss"] < 0.7 < 3.5 < first


def test_two_runs_are_the_same_run(tmp_path: Path) -> None:
    for name in ("one", "two"):
        small.train(tmp_path / name)
    assert small.left(tmp_path / "one") == small.left(tmp_path / "two")
    small.train(tmp_path / "other", small.config().model_copy(update={"seed": 8}))
    weights = [small.left(tmp_path / name)["files"]["model.safetensors"] for name in ("one", "other")]
    assert weights[0] != weights[1]


def test_the_best_checkpoint_is_chosen_on_validation_and_kept(tmp_path: Path) -> None:
    success = {1: 0.25, 2: 0.75, 3: 0.5, 4: 0.75, 5: 0.25}
    config = small.config(eval={"every": 1, "select": "success"}, checkpoint={"every": 0, "keep_last": 1})
    state = small.train(tmp_path, config, evaluate=lambda step: {"success": success[step]})
    assert state.best is not None
    assert (state.best.step, state.best.score) == (2, 0.75)  # of equals the first
    assert [step for step, _ in checkpoint.steps(tmp_path)] == [2, 5]
    assert checkpoint.model_folder(tmp_path).name == "step-000002"
    assert checkpoint.check(tmp_path / "checkpoints/step-000002").scores["success"] == 0.75


def test_it_stops_early_where_patience_ends(tmp_path: Path) -> None:
    success = {1: 0.5, 2: 0.5, 3: 0.4}
    config = small.config(eval={"every": 1, "select": "success", "patience": 2}, sft={"steps": 50})
    state = small.train(tmp_path, config, evaluate=lambda step: {"success": success[step]})
    assert (state.step, state.finished) == (3, True)
    rows = read(tmp_path / "log.jsonl")
    assert [row["best"] for row in rows if row["kind"] == "eval"] == [True, False, False]
    assert [row["text"] for row in rows if row["kind"] == "warning"] == ["2 evaluations in a row were no better"]
    again = small.train(tmp_path, config, evaluate=lambda step: {"success": 1.0})
    assert again == state.model_copy(update={"files": again.files})


def test_evaluation_draws_nothing_from_the_run(tmp_path: Path) -> None:
    def noisy(step: int) -> Mapping[str, float]:
        torch.rand(step)
        return {"success": 0.0}

    for name, evaluate in (("quiet", lambda step: {"success": 0.0}), ("noisy", noisy)):
        small.train(tmp_path / name, small.config(eval={"every": 1, "select": "loss"}), evaluate=evaluate)
    assert small.left(tmp_path / "quiet") == small.left(tmp_path / "noisy")


def test_a_loss_that_is_no_number_stops_and_names_the_packages(tmp_path: Path) -> None:
    config = small.config(optim={"name": "adamw", "lr": 1e30, "clip": 0.0}, eval={"every": 0}, checkpoint={"every": 1})
    with pytest.raises(NotFinite) as found:
        small.train(tmp_path, config)
    assert found.value.exit_code == 3
    assert set(found.value.packages) <= {f"p{n}" for n in range(24)}
    assert found.value.packages
    assert f" is not finite at step {found.value.step}, batch of p" in found.value.message
    newest = checkpoint.latest(tmp_path)
    assert newest is not None
    assert checkpoint.check(newest).step == found.value.step - 1
    assert all(math.isfinite(row["loss"]) for row in read(tmp_path / "log.jsonl"))


def test_a_loss_that_is_no_number_names_the_pass(sft: Make) -> None:
    """One row of the batch is poisoned by a token whose embedding is no number."""
    poison = Row([60, 1, 2, 3], [0, 1, 1, 1], [-1, 0, 0, 0], [0.0] * 4, package="bad")
    rows = [poison, *(replace(row, ids=[i % 60 for i in row.ids]) for row in small.rows(3))]
    own = sft(small.config(sft={"batch_size": 4, "pass_tokens": 1}), Data(rows))
    hook = own.model.model.embed_tokens.register_forward_hook(
        lambda module, given, out: out + torch.where(given[0] == 60, math.nan, 0.0)[..., None]
    )
    before = {n: p.detach().clone() for n, p in own.model.named_parameters()}
    with pytest.raises(NotFinite, match=r"loss is not finite at step 1, batch of bad$"):
        own._update()
    hook.remove()
    assert all(torch.equal(before[n], p) for n, p in own.model.named_parameters())


def test_nothing_to_train_on_is_said(sft: Make) -> None:
    with pytest.raises(UsageError, match="nothing to train on"):
        sft(small.config(), Data(()))


def test_stopped_and_resumed_is_unbroken(tmp_path: Path) -> None:
    small.train(tmp_path / "whole")
    for _ in range(9):
        left = iter([False, True])
        small.train(tmp_path / "stopped", stop=lambda left=left: next(left))
    assert small.left(tmp_path / "stopped")["files"] == small.left(tmp_path / "whole")["files"]
    assert small.left(tmp_path / "stopped")["log"] == small.left(tmp_path / "whole")["log"]


def adapted() -> Any:
    peft = pytest.importorskip("peft")
    settings = peft.LoraConfig(r=4, lora_alpha=8, lora_dropout=0.3, target_modules="all-linear", task_type="CAUSAL_LM")
    torch.manual_seed(1)
    return peft.get_peft_model(small.model(), settings)


#: peft asks transformers in a way that transformers will forget
quiet = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")


@quiet
@pytest.mark.parametrize("make", [adapted, lambda: small.model().to(torch.bfloat16)], ids=["adapters", "bfloat16"])
def test_what_is_drawn_and_rounded_goes_on_exactly(make: Callable[[], Any], tmp_path: Path) -> None:
    """Dropout of adapters and weights of few digits, stopped at every step."""
    config = small.config(optim={"name": "adamw"}, sft={"steps": 4})
    small.train(tmp_path / "whole", config, make=make)
    for _ in range(6):
        left = iter([False, True])
        small.train(tmp_path / "stopped", config, make=make, stop=lambda left=left: next(left))
    assert small.left(tmp_path / "stopped")["files"] == small.left(tmp_path / "whole")["files"]
    first, last = (read(tmp_path / "whole/log.jsonl")[n]["loss"] for n in (0, -2))
    assert last < first


@quiet
def test_adapters_alone_are_trained_and_stored(tmp_path: Path) -> None:
    small.train(tmp_path, small.config(sft={"steps": 2}), make=adapted)
    newest = checkpoint.latest(tmp_path)
    assert newest is not None
    saved = torch.load(newest / "trainer.pt", weights_only=True)
    assert saved["weights"]
    assert all("lora_" in name for name in saved["weights"])


def test_muon_takes_the_matrices_of_the_layers_alone() -> None:
    model = small.model()
    made = optim.build(model, OptimSettings(name="muon", weight_decay=0.1))
    muon, adamw = made.parts
    assert type(muon).__name__ == "Muon"
    names = {id(p): n for n, p in model.named_parameters()}
    mine = {names[id(p)] for p in muon.param_groups[0]["params"]}
    assert mine == {n for n in names.values() if "proj" in n}
    decayed = {names[id(p)] for g in adamw.param_groups if g["weight_decay"] for p in g["params"]}
    assert decayed == {"model.embed_tokens.weight"}


def test_a_gradient_that_is_no_number_changes_nothing() -> None:
    model = small.model()
    made = optim.build(model, OptimSettings())
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, math.inf)
    assert made.step(0, 1).finite is False
    assert all(torch.equal(before[n], p) for n, p in model.named_parameters())
    assert made.state_dict()["parts"][0]["state"] == {}


def test_clipping_scales_to_the_norm() -> None:
    """One parameter with gradient (3, 4): norm 5, clipped to 1 it is (0.6, 0.8)."""
    layer = torch.nn.Linear(2, 1, bias=False)
    made = optim.build(layer, OptimSettings(clip=1.0))
    layer.weight.grad = torch.tensor([[3.0, 4.0]])
    assert made.step(0, 1).grad_norm == pytest.approx(5.0)
    assert layer.weight.grad.tolist()[0] == pytest.approx([0.6, 0.8], rel=1e-5)
