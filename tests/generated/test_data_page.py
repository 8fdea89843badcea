"""The page on training data: its commands have the options it names, and its words are those of the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from rover.cli.main import run
from rover_train.dataset.curate import CurationSettings

TEXT = (Path(__file__).parents[2] / "rover/docs/data.md").read_text()
LINES = [re.split(r" {3,}", line.strip())[0] for line in TEXT.splitlines() if line.startswith("    rover ")]


@pytest.mark.parametrize("name", ["split", "collect", "dataset", "pilot"])
def test_options_exist(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [shlex.split(line)[1:] for line in LINES if line.startswith(f"rover {name} ")]
    assert lines
    assert run([name, "--help"]) == 0
    offered = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", capsys.readouterr().out))
    used = {word for line in lines for word in line if word.startswith("-")}
    assert used <= offered


def test_defaults_are_those_of_the_code() -> None:
    settings = CurationSettings()
    assert f"`several` ({settings.several})" in TEXT
    assert f"below `low` ({settings.low}) of at least `counted` ({settings.counted}) rollouts" in TEXT
    assert all(name in CurationSettings.model_fields for name in re.findall(r"--set '?(\w+)=", TEXT))
