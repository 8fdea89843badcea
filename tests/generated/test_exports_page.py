"""The page on exports: its commands have the options it names, and its words are those of the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from rover.cli.main import run
from rover.port.atif.exporter import OPTIONS as ATIF
from rover.port.atif.foreign import SHELLS
from rover.port.hf.exporter import OPTIONS as HF
from rover.port.hf.features import CONFIGS, SECRET
from rover.port.registry import exporter, importer
from rover.port.verifiers.exporter import DEFAULT
from rover.port.verifiers.exporter import OPTIONS as VERIFIERS

TEXT = (Path(__file__).parents[2] / "rover/docs/exports.md").read_text()
COMMANDS = [line.strip() for line in TEXT.splitlines() if line.startswith("    rover ")]
LINES = [shlex.split(re.split(r" {4,}", line)[0]) for line in COMMANDS]


@pytest.mark.parametrize("name", ["export", "import"])
def test_options_and_kinds_exist(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [words[1:] for words in LINES if words[1] == name]
    assert lines
    assert run([name, "--help"]) == 0
    offered = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", capsys.readouterr().out))
    assert {word for words in lines for word in words if word.startswith("-")} <= offered
    find = exporter if name == "export" else importer
    assert all(find(words[1]).kind == words[1] for words in lines)


def test_options_of_a_format_are_named() -> None:
    parts = re.split(r"^## ", TEXT, flags=re.MULTILINE)
    for title, options in (("verifiers", VERIFIERS), ("ATIF", ATIF), ("Hugging Face", HF)):
        (part,) = [part for part in parts if part.startswith(title)]
        named = set(re.findall(r"--set '?(\w+)=", part)) | ({"verifiers"} if "--with-verifiers" in part else set())
        assert named == set(options), title


def test_words_of_the_code() -> None:
    assert f"vf-validate {DEFAULT} " in TEXT
    assert {name for name in CONFIGS if re.search(rf"^    {name} {{3,}}", TEXT, re.MULTILINE)} == set(CONFIGS)
    assert all(f"`{name}`" in TEXT for name in SECRET)
    assert {"bash", "run_command"} <= SHELLS
