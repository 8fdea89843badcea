"""The README's blocks run as they stand there, each in a folder of its own."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
INSTALL = "pip install . && "


def shell(block: str, folder: Path) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if k not in ("ROVER_STORE",)}
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    shutil.copytree(ROOT / "examples", folder / "examples")
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def test_there_are_two_commands_of_set_up_and_they_are_those_of_ci():
    assert len(BLOCKS) == 7
    assert BLOCKS[0].startswith(INSTALL)
    ci = (ROOT / ".ci" / "run").read_text()
    install, test = BLOCKS[1].strip().split(" && ")
    assert install in ci.replace("-q ", "")
    assert test in ci


@pytest.mark.parametrize("number", [0, 2, 3, 4, 5])
def test_block_runs(number, tmp_path):
    done = shell(BLOCKS[number].removeprefix(INSTALL), tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout


#: what makes the block that trains short: a few packages, a model that hardly knows anything, single steps
SHORTER = (
    ("--workspaces 40 --model base", "--workspaces 4 --model base --steps 1"),
    ("--count 3", "--count 1"),
    ("--config recipe:sft", "--config recipe:sft --set data.shares=[0.5,0.25,0.25] --set sft.steps=2"),
    ("--set rl.steps=12", "--set rl.steps=1 --set rl.tasks=1 --set rl.group=2 --set rl.max_turn_tokens=8"),
)


def test_the_block_that_trains_runs_in_short(tmp_path):
    pytest.importorskip("torch")
    block = BLOCKS[6]
    for text, other in SHORTER:
        assert text in block
        block = block.replace(text, other)
    done = shell(block, tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert (tmp_path / "vtca/report.html").is_file()
    assert "too few workspaces" in done.stdout


def test_a_block_ends_where_the_next_begins():
    for block in BLOCKS[:-1]:
        depth = len(re.findall(r"\bcd [\w-]+", block)) - len(re.findall(r"\bcd \.\.(?=\s)", block))
        assert depth == 0, block


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert target.startswith("http") or (ROOT / target).exists(), target


def test_examples_name_their_command_and_it_is_right():
    for readme in sorted((ROOT / "examples" / "workspaces").glob("*/README.md")):
        name = readme.parent.name
        assert f"rover build --from examples/workspaces/{name}/files" in readme.read_text()
        assert len(readme.read_text().strip().splitlines()) <= 5
