"""Agents in environments of their own, in every runtime: the Python they are made from is shown, also where it lies
below a folder that only the caller may enter; what cannot be started is no failure of the agent."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from boxes import REAL, make
from packages import INSTRUCTION

from rover.harness.loop import Job, Played
from rover.harness.manifest import of_files
from rover.harness.program import play_program
from rover.policy.program import ProgramPolicy, Spec
from rover.sandbox.protocol import Runtime
from rover_store.errors import SandboxError
from rover_store.records import Budget, Harness, RolloutKey
from rover_store.trees import tree_id

START = {"notes.md": b"1\n"}
AGENT = """
import json, subprocess, sys
import toy
said = [subprocess.check_output([name, "-c", "import sys; print(sys.prefix)"]) for name in ("python", "python3")]
print(json.dumps([sys.prefix, toy.__file__, sys.argv[1:], [line.decode().strip() for line in said]]))
"""


@pytest.fixture(scope="module", params=[kind for kind in REAL if kind not in ("bubblewrap-copy", "landlock-4")])
def runtime(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    made = make(request.param)
    yield made
    made.close()


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder that only this user may enter, where boxes have nothing of their own."""
    folder = Path(tempfile.mkdtemp(prefix="rover-test-", dir="/var/tmp"))
    yield folder
    shutil.rmtree(folder)


def environment(folder: Path, python: str = "") -> Path:
    """A virtual environment without distributions, with an agent that needs the standard library alone."""
    site = folder / f"lib/python3.{sys.version_info[1]}/site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    base = python or os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]
    for name in ("python", "python3"):
        (folder / "bin" / name).symlink_to(base)
    (folder / "pyvenv.cfg").write_text(f"home = {os.path.dirname(base)}\nversion = 3.{sys.version_info[1]}\n")
    (site / "toy.py").write_text("")
    (site / "my_agent.py").write_text(AGENT)
    (folder / "bin/broken").write_text("#!/nowhere/python\n")
    (folder / "bin/broken").chmod(0o755)
    return folder


def play(runtime: Runtime, argv: tuple[str, ...], agent: Path | None = None) -> Played:
    policy = ProgramPolicy(Spec(argv), agent=agent)
    key = RolloutKey(
        context="0" * 40, task="1" * 40, harness="2" * 40, policy="p", seed=7, budget=Budget(seconds=30.0), runtime="r",
    )  # fmt: skip
    start = of_files(START)
    job = Job(key, "notes", INSTRUCTION, Harness(tools=("shell",)), start, tree_id(start))
    box = runtime.open(START, place=policy.place)
    try:
        return play_program(box, policy, job, clock=time.monotonic)
    finally:
        box.close()


@pytest.mark.parametrize("name", ["python", "python3"])
def test_its_own_python_runs_it_and_the_box_s_runs_what_it_starts(
    runtime: Runtime, closed: Path, name: str
) -> None:
    agent = environment(closed / "agents/one")
    told = play(runtime, (name, "-m", "my_agent", "{agent}"), agent).trajectory
    assert told.program is not None
    assert (told.end, told.program.stderr) == ("completed", "")
    prefix, library, words, others = json.loads(told.program.stdout)
    assert (prefix, words) == (str(agent), [str(agent)])
    assert library.startswith(f"{agent}/lib/")
    assert {os.path.basename(other) for other in others} == {"v"}, "with the libraries that every command finds"


def test_a_python_that_links_lead_to(runtime: Runtime, closed: Path) -> None:
    """As uv lays them out: the environment names a folder of links, which leads to the release."""
    base = Path(os.path.realpath(sys._base_executable)).parent.parent  # type: ignore[attr-defined]
    if str(base) == "/usr":
        pytest.skip("the system's Python needs nothing to be shown")
    (closed / "pythons").mkdir(mode=0o700)
    (closed / "pythons/now").symlink_to(base)
    agent = environment(closed / "agent", f"{closed}/pythons/now/bin/{os.path.basename(sys.executable)}")
    if not os.path.exists(agent / "bin/python"):
        pytest.skip("this Python has another name where it lies")
    told = play(runtime, ("python", "-m", "my_agent"), agent).trajectory
    assert told.end == "completed", told.error
    assert told.program is not None
    assert json.loads(told.program.stdout)[0] == str(agent)


@pytest.mark.parametrize("word", ["nofile", "{agent}/bin/nofile", "./nofile.sh", "broken"])
def test_what_cannot_be_started_is_no_failure_of_the_agent(runtime: Runtime, closed: Path, word: str) -> None:
    told = play(runtime, (word, "x"), environment(closed / "agent")).trajectory
    assert told.end == "infra_error"
    assert told.error.startswith("HarnessError: the program cannot be started: ")
    assert told.error.endswith(": No such file or directory")
    assert os.path.basename(word) in told.error


def test_a_folder_that_the_box_s_user_cannot_enter_is_named(runtime: Runtime, closed: Path) -> None:
    """Landlock says so before anything runs; elsewhere the program cannot be started, and no other one is instead."""
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    agent = environment(closed / "agent")
    agent.chmod(0o700)
    command = ("python", "-m", "my_agent")
    if runtime.kind == "landlock":
        with pytest.raises(SandboxError) as caught:
            play(runtime, command, agent)
        assert f"cannot enter {agent}" in caught.value.message
        assert "\n" not in caught.value.message
    else:
        told = play(runtime, command, agent).trajectory
        assert (told.end, told.error) == (
            "infra_error", f"HarnessError: the program cannot be started: {agent}/bin/python: Permission denied"
        )  # fmt: skip
    agent.chmod(0o755)
    assert play(runtime, command, agent).trajectory.end == "completed"
    assert os.listdir(closed) == ["agent"], "what covers the folder is seen by the boxes alone"
