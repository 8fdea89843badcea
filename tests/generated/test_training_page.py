"""The page on training: its commands have the options it names, its settings exist, and its scheme is a scheme."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from rover.cli.main import run
from rover_train.config import fields
from rover_train.credit.protocol import CreditScheme
from rover_train.credit.registry import names
from rover_train.credit.settings import CreditSettings
from rover_train.train.run import OURS
from rover_train.train.settings import LoraSettings

TEXT = (Path(__file__).parents[2] / "rover/docs/training.md").read_text()
WHOLE = TEXT.replace("\\\n", " ")
LINES = [line.strip() for line in WHOLE.splitlines() if line.startswith("    rover ")]
KEYS = {one.key for one in fields()}


@pytest.mark.parametrize("name", ["build", "collect", "train", "eval", "compare"])
def test_options_exist(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [shlex.split(line)[1:] for line in LINES if line.startswith(f"rover {name} ")]
    assert lines
    assert run([name, "--help"]) == 0
    offered = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", capsys.readouterr().out))
    assert {word for line in lines for word in line if word.startswith("-")} <= offered


def test_settings_exist() -> None:
    sections = {key.partition(".")[0] for key in KEYS if "." in key}
    said = set(re.findall(r"(?<![\w/.])([a-z]+\.[a-z_]+)(?=[=`])", TEXT))
    named = {key for key in said if key.partition(".")[0] in sections} - {"log.jsonl"}
    assert len(named) > 10
    assert named <= KEYS
    own = LoraSettings()
    assert f"rank {own.rank}, scaling {own.scaling:g}, dropout {own.dropout:g}" in TEXT


def test_every_method_is_told_apart() -> None:
    part = TEXT[TEXT.index("## Which method") : TEXT.index("## Large models")]
    assert set(re.findall(r"\*\*([a-z-]+)\*\*", part)) == {"sft", "opd", *names()}


def test_the_files_of_a_run_are_told() -> None:
    part = TEXT[TEXT.index("## What a run's folder holds") : TEXT.index("A checkpoint is a folder")]
    told = {name.rstrip("/") for name in re.findall(r"^    (\S+) ", part, re.MULTILINE)}
    assert told == {name for name in OURS if name not in (".lock", "tensorboard", "trackio")} | {
        "samples", "evaluations"
    }  # fmt: skip


def test_the_scheme_works() -> None:
    made: dict[str, type] = {}
    exec(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[0], made)
    scheme = made["BestOnly"](CreditSettings())
    assert isinstance(scheme, CreditScheme)
    rollouts = [SimpleNamespace(gate=g, outcome=o, turns=[0] * n) for g, o, n in ((1, 0.5, 2), (0, 1.0, 1), (1, 1, 3))]
    (credit,) = scheme.assign([SimpleNamespace(rollouts=rollouts)])
    assert credit.turns == ((0.0, 0.0), (0.0,), (1.0, 1.0, 1.0))
