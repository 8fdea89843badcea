"""`rover help mcp`: its example runs as it stands, and its numbers are those of the code."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import pytest
from packages import runtime
from tool_servers import package

from rover.cli.help_topics import page
from rover.harness import mcp
from rover.harness.mcp import offer, schema, servers
from rover.policy.scripted import ScriptedPolicy
from rover.rollout.engine import Engine
from rover.rollout.records import RolloutRequest

TEXT = page("mcp")


def test_the_example_runs_as_it_stands(tmp_path: Path) -> None:
    source = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert source is not None
    named = json.loads("{" + TEXT[TEXT.index('"mcp_servers"') : TEXT.index("]\n") + 1] + "}")
    env = package(named, notes=source[1])
    calls = [("add", "milk"), ("add", "eggs and milk"), ("find", "milk"), ("find", "%")]
    plan = [{"tool": f"notes__{tool}", "arguments": {"text": text}} for tool, text in calls]
    made = runtime()
    with Engine(made) as engine:
        result = engine.rollouts([RolloutRequest(env, ScriptedPolicy.of(plan), 0)])[0]
    made.close()
    assert result.trajectory.end == "completed", result.trajectory.error
    said = [call.output for turn in result.trajectory.turns for call in turn.calls]
    assert said == ["1", "2", "1 milk\n2 eggs and milk", ""]
    (tmp_path / "notes.db").write_bytes(result.end["notes.db"])
    db = sqlite3.connect(tmp_path / "notes.db")
    assert db.execute("SELECT text FROM notes").fetchall() == [("milk",), ("eggs and milk",)]
    db.close()


@pytest.mark.parametrize(
    "words",
    [
        f"than {offer.MAX_NAME} characters",
        f"At most {offer.MAX_TOOLS} tools",
        f"cut at {offer.DESCRIPTION:,} characters",
        f"at most {schema.BYTES >> 10} KiB, {schema.DEPTH} deep",
        "not answer within a minute" if servers.START_S == 60 else "",
        "get three seconds to end" if servers.END_S == 3 else "",
        f"`{mcp.FOLDER_MARK}`",
        f"`{mcp.FOLDER_VARIABLE}`",
        f"`{mcp.CONFIG_MARK}`",
        f"`{mcp.CONFIG_VARIABLE}`",
    ],
)
def test_its_numbers_and_names_are_those_of_the_code(words: str) -> None:
    assert words
    assert words in " ".join(TEXT.split())
