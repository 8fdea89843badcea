"""Models: specs, adapters, what is saved, identity of weights. Tiny ones of this file's own making."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from chat_tokenizers import tokenizer  # noqa: E402

from rover_store.errors import UsageError  # noqa: E402
from rover_train.models import Loaded, load, save_adapter, save_servable, weights_id  # noqa: E402
from rover_train.render.settings import RenderSettings  # noqa: E402
from rover_train.train.settings import LoraSettings  # noqa: E402


def folder(path: Path, name: str = "chatml", *, rows: int = 0, weights: bool = True) -> Path:
    """A folder with a tiny model."""
    from transformers import LlamaConfig, LlamaForCausalLM

    made = tokenizer(name)
    config = LlamaConfig(
        vocab_size=rows or len(made), hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=True, pad_token_id=None, bos_token_id=None,
        eos_token_id=made.eos_token_id,
    )  # fmt: skip
    made.save_pretrained(str(path))
    if weights:
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(str(path))
    else:
        config.save_pretrained(str(path))
    return path


def logits(loaded: Loaded) -> Any:
    with torch.no_grad():
        return loaded.model(torch.arange(5)[None]).logits


def stirred(loaded: Loaded) -> Loaded:
    """Adapters that do something: peft begins with an update of nothing."""
    for name, weight in loaded.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1, generator=torch.Generator().manual_seed(1))
    return loaded


def files(path: Path) -> dict[str, bytes]:
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def test_a_folder_loads_and_saves_to_equal_bytes(tmp_path: Path) -> None:
    loaded = load(str(folder(tmp_path / "m")))
    save_servable(loaded, tmp_path / "one")
    again = load(str(tmp_path / "one"))
    save_servable(again, tmp_path / "two")
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert weights_id(loaded.model) == weights_id(again.model)
    assert torch.equal(logits(loaded), logits(again))
    assert (loaded.name, loaded.dialect) == ("m", "json")
    assert again.tokenizer.chat_template == loaded.tokenizer.chat_template
    assert all(str(tmp_path).encode() not in data for data in files(tmp_path / "one").values())


def test_the_form_of_calls_goes_with_the_template(tmp_path: Path) -> None:
    assert load(str(folder(tmp_path / "p", "plain"))).dialect == "plain"
    render = load(str(tmp_path / "p")).renderer(RenderSettings(window=99))
    assert (render.dialect.name, render.window) == ("plain", 99)


def test_adapters_are_merged_and_kept_apart(tmp_path: Path) -> None:
    path = folder(tmp_path / "m")
    loaded = stirred(load(str(path), lora=LoraSettings(rank=4)))
    before, seen = weights_id(loaded.model), logits(loaded)
    save_servable(loaded, tmp_path / "one")
    save_servable(loaded, tmp_path / "two")
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert weights_id(loaded.model) == before, "saving changes nothing"
    assert torch.equal(logits(loaded), seen)
    merged = load(str(tmp_path / "one"))
    assert torch.allclose(logits(merged), seen, atol=1e-5)
    assert not torch.allclose(logits(load(str(path))), seen, atol=1e-3)

    from peft import PeftModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peft about transformers
        beside = PeftModel.from_pretrained(load(str(path)).model, str(tmp_path / "one" / "adapter"))
    assert torch.allclose(logits(Loaded(beside, None, "", "")), seen, atol=1e-6)
    config = json.loads((tmp_path / "one" / "adapter" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "m"
    assert config["target_modules"] == sorted(config["target_modules"])
    save_adapter(loaded, tmp_path / "apart")
    assert files(tmp_path / "apart") == files(tmp_path / "one" / "adapter")


def test_adapters_follow_the_seed_and_the_defaults(tmp_path: Path) -> None:
    path = str(folder(tmp_path / "m"))
    one, two, other = (load(path, lora=LoraSettings(), seed=seed) for seed in (1, 1, 2))
    assert weights_id(one.model) == weights_id(two.model) != weights_id(other.model)
    config = one.model.peft_config["default"]
    assert (config.r, config.lora_alpha, config.lora_dropout) == (32, 64.0, 0.05)
    trained = {n.split(".")[-4] for n, p in one.model.named_parameters() if p.requires_grad}
    assert trained == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


def test_identity_changes_with_any_weight(tmp_path: Path) -> None:
    loaded = load(str(folder(tmp_path / "m")), lora=LoraSettings(rank=2))
    before = weights_id(loaded.model)
    for name, weight in loaded.model.named_parameters():
        if weight.requires_grad:
            with torch.no_grad():
                weight.view(-1)[0] += 1.0
            assert weights_id(loaded.model) != before, name
            before = weights_id(loaded.model)


def test_a_small_model_without_weights_is_drawn(tmp_path: Path) -> None:
    path = folder(tmp_path / "w", "plain", weights=False)
    one, two, other = (load(f"small:{path}", seed=seed) for seed in (1, 1, 2))
    assert weights_id(one.model) == weights_id(two.model) != weights_id(other.model)
    with pytest.raises(UsageError, match="model cannot be loaded"):
        load(str(path))


def test_what_is_no_model_is_told_in_a_line(tmp_path: Path) -> None:
    bare = folder(tmp_path / "bare")
    (bare / "chat_template.jinja").unlink()
    narrow = folder(tmp_path / "narrow", rows=9)
    broken = folder(tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"\x08\x00\x00\x00")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    (tmp_path / "empty.gguf").write_bytes(b"GGUF")
    for spec, problem in {
        str(bare): "has no chat template", str(narrow): "ids up to", str(broken): "cannot be loaded",
        str(adapter): "an adapter without its model", str(tmp_path / "none"): "no such folder or file",
        str(tmp_path / "empty.gguf"): "cannot be loaded", "small:none": "no such folder or file",
        "gpt2": "no such folder or file",
    }.items():  # fmt: skip
        with pytest.raises(UsageError, match=problem) as caught:
            load(spec)
        assert "\n" not in str(caught.value)
        assert spec in str(caught.value)


def test_weights_that_do_not_fit_are_refused_not_drawn(tmp_path: Path) -> None:
    """The library fills in what is missing, draws what has another shape, and asks whether to run a folder's code."""
    from safetensors.torch import load_file, save_file

    def damaged(name: str, change: Any) -> str:
        path = folder(tmp_path / name)
        weights = load_file(path / "model.safetensors")
        change(weights)
        save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
        return str(path)

    key = "model.layers.1.self_attn.q_proj.weight"
    coded = folder(tmp_path / "coded")
    config = json.loads((coded / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.C", "AutoModelForCausalLM": "own.M"}}
    (coded / "config.json").write_text(json.dumps(config))
    (coded / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    for spec, problem in {
        damaged("lacking", lambda w: w.pop(key)): f"its weights lack {key}",
        damaged("narrow", lambda w: w.update({key: w[key][:-1].clone()})): f"{key} is of shape",
        damaged("nan", lambda w: w[key].view(-1)[3].fill_(float("nan"))): f"{key} holds numbers that are not finite",
        str(coded): "cannot be loaded",
    }.items():
        with pytest.raises(UsageError, match=problem) as caught:
            load(spec)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()


def test_a_template_that_rewrites_history_is_refused_at_once(tmp_path: Path) -> None:
    loaded = load(str(folder(tmp_path / "r", "r1")))
    with pytest.raises(UsageError, match="rewrites earlier text"):
        loaded.renderer(RenderSettings())
    assert loaded.renderer(RenderSettings(drift="split")).drift == "split"
