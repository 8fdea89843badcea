"""The worked example of `rover help merge` runs as it stands there, line by line, with the exit codes it names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "rover/docs/merge.md"


def test_the_example_of_two_people_runs(tmp_path: Path) -> None:
    text = PAGE.read_text("utf-8")
    story = text[text.index("## Two people") : text.index("## What is merged")]
    lines = re.findall(r"^    (.+)$", story, re.MULTILINE)
    env = {k: v for k, v in os.environ.items() if k != "ROVER_STORE"}
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    env["SOURCE_DATE_EPOCH"] = "1700000000"
    script, wanted = [], []
    for line in lines:
        command, _, code = line.partition("# exit ")
        script.append(f"{command.strip()}\necho \"exit $?\" >&2")
        wanted.append(int(code or 0))
    done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=tmp_path, env=env, capture_output=True, text=True)
    codes = [int(n) for n in re.findall(r"^exit (\d+)$", done.stderr, re.MULTILINE)]
    assert codes == wanted, done.stdout + done.stderr
    assert "has commits that this store does not have" in done.stderr
    assert "shipped orders" in done.stdout  # the conflict shows both sides
    assert "merged origin/main into main" in done.stdout
    folder = tmp_path / "end"
    show = ["rover", "--store", "alice", "checkout", "count-orders", str(folder)]
    assert subprocess.run(show, cwd=tmp_path, env=env, capture_output=True).returncode == 0
    assert "shipped orders" in (folder / "task/contract.json").read_text()
    assert "Sort by region." in (folder / "task/instruction.md").read_text()
