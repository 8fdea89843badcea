"""The config of a training run: one record, read from TOML, changed by words, written back, and equal to itself."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from rover_store.errors import NotFound
from rover_train.config import Config, ConfigError, dump, fields, load, loads, nearest
from rover_train.credit import registry
from rover_train.credit.grpo import Grpo


def test_a_config_that_is_written_is_read_back_equal() -> None:
    config = load(
        None,
        ["model.lora=true", "model.lora.rank=4", 'data.tags=["level:2", "family:edit"]', "credit.lambda=0.2"],
        method="gdpo", revision="a" * 40,
    )  # fmt: skip
    assert loads(dump(config)) == config
    assert loads(dump(config)).digest() == config.digest()
    assert config.model.lora is not None
    assert (config.model.lora.rank, config.model.lora.scaling) == (4, 64.0)


def test_the_digest_tells_what_is_learnt_and_not_how_it_is_told() -> None:
    config = Config()
    assert load(None, ["log.every=5", "checkpoint.every=7"]).digest() == config.digest()
    others = [load(None, [word]).digest() for word in ("seed=1", "optim.lr=0.1", "eval.every=3", "data.split_seed=1")]
    assert len({config.digest(), *others}) == 5


def test_later_words_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('method = "gigpo"\n[optim]\nlr = 0.5\nwarmup = 10.0\n')
    config = load(file, ["optim.lr=0.25"], seed=9)
    assert (config.method, config.optim.lr, config.optim.warmup, config.seed) == ("gigpo", 0.25, 10.0, 9)


def test_a_text_needs_no_quotes_and_may_have_them() -> None:
    assert load(None, ["model.spec=small:world"]).model.spec == "small:world"
    assert load(None, ['model.spec="small:world"']).model.spec == "small:world"
    assert load(None, ["optim.schedule = cosine"]).optim.schedule == "cosine"
    assert load(None, ["data.shares=[0.5, 0.25, 0.25]"]).data.shares == (0.5, 0.25, 0.25)


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("optim.lrr=1", "--set: optim.lrr: no such key; did you mean optim.lr?"),
        ("lr=1", "--set: lr: no such key; did you mean optim.lr?"),
        ("sft.batchsize=1", "--set: sft.batchsize: no such key; did you mean sft.batch_size?"),
        ("qqqq=1", "--set: qqqq: no such key"),
        ("optim.lr=fast", "optim.lr: input should be a valid number"),
        ("rl.group=0", "rl.group: input should be greater than or equal to 1 (got 0)"),
        ("method=ppo", "method: no such method; there are sft, opd, grpo, "),
        ("optim.betas=[1.5, 0.9]", "optim.betas: both should be at least 0 and below 1 (got [1.5, 0.9])"),
        ("loss.dual=0.5", "loss.dual: should be above 1, or 0 for none"),
        ("optim.lr=nan", "optim.lr: input should be a finite number"),
        ("optim.lr=true", "optim.lr: input should be a number (got True)"),
        ("rl.group=true", "rl.group: input should be a number (got True)"),
        ("threads=99999999999", "threads: input should be less than or equal to 1024"),
        ("rl.steps=99999999999999999999999", "rl.steps: input should be less than or equal to 1000000000"),
        ("rl.width=100000", "rl.width: input should be less than or equal to 1024"),
        ("optim.lr", "--set: optim.lr: write it as section.field=value"),
        ("optim..lr=1", "--set: optim..lr=1: write it as section.field=value"),
        ("seed=-1", "seed: input should be greater than or equal to 0"),
    ],
)
def test_a_word_that_makes_no_sense_is_one_line(word: str, line: str) -> None:
    with pytest.raises(ConfigError) as found:
        load(None, [word])
    assert line in found.value.message
    assert "\n" not in found.value.message
    assert found.value.exit_code == 2


def test_a_credit_scheme_that_is_installed_is_a_method(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = EntryPoint("mine", "rover_train.credit.grpo:Grpo", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda **asked: [mine] if asked.get("name", "mine") == "mine" else [])
    config = load(None, ["method=mine"])
    assert config.method == "mine"
    assert loads(dump(config)) == config
    assert isinstance(registry.with_settings(config.method, config.credit), Grpo)


def test_a_file_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    for text, line in ((b"a = ", "not TOML"), (b"\xff", "not UTF-8"), (b"[sft]\nepoch = 1\n", "did you mean")):
        file.write_bytes(text)
        with pytest.raises(ConfigError, match=line) as found:
            load(file)
        assert found.value.message.startswith(str(file))
    with pytest.raises(ConfigError, match="no such file"):
        load(tmp_path / "absent.toml")


def test_every_key_is_described_and_found() -> None:
    every = list(fields())
    assert [one.key for one in every if len(one.text) < 8] == []
    assert len({one.key for one in every}) == len(every) > 60
    assert all(nearest(one.key + "x") for one in every)


def test_every_key_can_be_set_to_its_own_default() -> None:
    config = Config()
    for one in fields():
        if one.default != "absent" and not one.key.startswith("model.lora"):
            changed: Any = load(None, [f"{one.key}={one.default}"])
            assert changed == config, one.key


def test_recipes_that_come_with_rover_are_named() -> None:
    from rover_train.train.asked import Asked, config_of

    found = config_of(Asked(file=Path("recipe:rl"), method="grpo", revision="main"))
    assert (found.method, found.revision, found.rl.group) == ("grpo", "main", 8)
    with pytest.raises(NotFound, match="recipe not found: none"):
        config_of(Asked(file=Path("recipe:none")))
