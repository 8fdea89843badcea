"""A real agent from PyPI, mini-swe-agent, as a policy: by tool calls and by text, against a scripted server.

ROVER_AGENT_PYTHON names the Python of a virtual environment that has it; without, there is nothing to run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from boxes import make
from chat_server import ChatServer, call
from packages import REPORT, summary_package, summary_resources

from rover.policy.registry import get_policy
from rover.rollout.engine import Engine
from rover.rollout.env import env_from_files
from rover.rollout.records import RolloutRequest

PYTHON = os.environ.get("ROVER_AGENT_PYTHON", "")
ENV = env_from_files(summary_package(), summary_resources())
COMMANDS = (
    "cat orders.csv",
    "python3 -c 'print(6)' > draft.txt && ls",
    f"cat > report.csv <<'END'\n{REPORT.decode()}END\nrm draft.txt",
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
)
POLICY = """\
argv = ["mini", "-m", "openai/{model}", "-t", "{instruction}", "-y", "--exit-immediately", "-o", "{scratch}/log.json"]
name = "mini"
[env]
MSWEA_CONFIGURED = "true"
MSWEA_COST_TRACKING = "ignore_errors"
MSWEA_SILENT_STARTUP = "1"
LITELLM_LOCAL_MODEL_COST_MAP = "True"
"""
pytestmark = pytest.mark.skipif(not PYTHON, reason="ROVER_AGENT_PYTHON names no Python with mini-swe-agent")


@pytest.fixture(scope="module", params=["bubblewrap", "landlock", "docker"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    runtime = make(request.param)
    with Engine(runtime) as engine:
        yield engine
    runtime.close()  # type: ignore[attr-defined]


def by_text(command: str) -> str:
    return f"Next.\n\n```mswea_bash_command\n{command}\n```\n"


@pytest.mark.parametrize(
    ("say", "more"),
    [(call, ""), (by_text, '"-c", "mini_textbased.yaml", "--model-class", "litellm_textbased"')],
    ids=["tools", "text"],
)
def test_it_solves_a_package(engine: Engine, tmp_path: Path, say: Any, more: str) -> None:
    file = tmp_path / "mini.toml"
    file.write_text(POLICY.replace('"-y"', f'"-y", {more}') if more else POLICY)
    with ChatServer(*map(say, COMMANDS)) as server:
        agent = Path(PYTHON).parent.parent
        policy = get_policy(f"command:{file}", agent=agent, model="served", server=server.url)
        ((result, verdict),) = engine.run([RolloutRequest(ENV, policy, 3)])
    told = result.trajectory
    assert (verdict.outcome, told.end, told.error) == ("passed", "completed", ""), told.program
    assert [c.arguments for turn in told.turns for c in turn.calls] == [{"command": command} for command in COMMANDS]
    assert [c.tool for turn in told.turns for c in turn.calls] == ["bash"] * 4
    outputs = [c.output for turn in told.turns for c in turn.calls]
    assert "1001,North,120.50" in outputs[0]
    assert "draft.txt" in outputs[1]
    assert [[a.path for a in c.writes] for turn in told.turns for c in turn.calls] == [
        [], ["draft.txt"], ["draft.txt", "report.csv"], [],
    ]  # fmt: skip
    trees = [turn.tree for turn in told.turns]
    assert (trees[0], len(set(trees)), trees[2]) == (told.start, 3, trees[3])
    assert told.program is not None
    assert (told.program.exit_code, told.program.models) == (0, ("served",))
