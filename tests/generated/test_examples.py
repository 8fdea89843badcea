"""The example in each command's help runs as it stands there: all of them in turn, in one folder."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from rover.cli.commands import COMMANDS
from rover.cli.main import load, run

ROOT = Path(__file__).parents[2]
#: in this order each finds what it needs; the store lies in the folder of the first
ORDER = (
    "init", "new", "commit", "checkout", "build", "list", "status", "log", "sql", "show", "diff", "run", "check",
    "collect", "dataset", "tag", "import", "export",
    "blame", "bisect",
    "graph", "impact", "release", "branch", "merge", "clone", "remote", "push", "pull", "evidence",
    "inject", "diagnose", "repair", "op", "undo", "reindex", "fsck", "gc", "prune", "stats", "du", "help",
    "doctor",
)  # fmt: skip
#: run by tests of their own
LONG = (
    "demo", "bench", "explain", "promote", "evolve", "compare", "report", "split", "pilot", "world", "train", "eval",
)  # fmt: skip


def examples(name: str) -> list[str]:
    command = load(name)
    texts = [c.help for c in (command, *getattr(command, "commands", {}).values())]
    return [m[1] for text in texts for m in re.finditer(r"Example: (rover .+)", text or "")]


def test_every_example_has_its_place() -> None:
    assert {*ORDER, *LONG} == set(COMMANDS)


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("ROVER_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    for name in ORDER:
        for line in examples(name):
            code = run(shlex.split(line)[1:])
            said = capsys.readouterr()
            # a defect that was injected is a finding, and no repair of a package without a solver is promoted
            assert code == (1 if name in ("diagnose", "repair") else 0), f"{line}\n{said.out}{said.err}"
            assert said.out or said.err, line
        if name == "init":
            monkeypatch.chdir(tmp_path / "work")
            shutil.copytree(ROOT / "examples", tmp_path / "work/examples")
