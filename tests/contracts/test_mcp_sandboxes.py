"""Tool servers in every kind of sandbox: they live while other tools work, and end with their rollout."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from boxes import REAL, make
from tool_servers import hand, package

from rover.policy.scripted import ScriptedPolicy
from rover.rollout.engine import Engine
from rover.rollout.records import RolloutRequest
from rover_store.records import Call

KEEPER = '''
kept, beats = [], []
import threading

def beat():
    while True:
        beats.append(1)
        time.sleep(0.01)

threading.Thread(target=beat, daemon=True).start()

def call(id, params):
    kept.append(1)
    with open("kept.txt", "a") as stream:
        stream.write(f"{len(kept)}\\n")
    text(id, f"{len(kept)} {len(beats) > 0}")
'''


@pytest.fixture(scope="module", params=REAL)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    made = make(request.param)
    with Engine(made) as opened:
        yield opened
    made.close()


def played(
    engine: Engine, source: str, *calls: tuple[str, dict[str, str]], seed: int = 0, **limits: float
) -> list[Call]:
    plan = [{"tool": tool, "arguments": arguments} for tool, arguments in calls]
    request = RolloutRequest(package({"limits": limits}, own=hand(source)), ScriptedPolicy.of(plan), seed)
    trajectory = engine.rollouts([request])[0].trajectory
    assert trajectory.end == "completed", trajectory.error
    return [call for turn in trajectory.turns for call in turn.calls]


def test_they_live_while_commands_and_tools_work(engine: Engine) -> None:
    calls = played(
        engine,
        KEEPER,
        ("own__go", {}),
        ("shell", {"command": "cat kept.txt; echo x >> kept.txt"}),
        ("read_file", {"path": "kept.txt"}),
        ("own__go", {}),
        ("read_file", {"path": "kept.txt"}),
    )
    assert [call.output for call in calls if call.tool == "own__go"] == ["1 True", "2 True"]
    assert json.loads(calls[1].output)["stdout"] == "1\n"
    assert calls[2].output == "1\nx\n"
    assert calls[4].output == "1\nx\n2\n"
    assert [[a.path for a in call.writes] for call in calls] == [["kept.txt"], ["kept.txt"], [], ["kept.txt"], []]


def test_the_next_rollout_in_the_box_begins_anew(engine: Engine) -> None:
    for seed in (1, 2):
        source = f"{KEEPER}\nkept += os.listdir(os.environ['ROVER_MCP'])\nopen(os.environ['ROVER_MCP'] + '/x', 'w')"
        (call,) = played(engine, source, ("own__go", {}), seed=seed)
        assert call.output == "2 True"  # the program itself, and this call


def test_a_limit_ends_them_and_nothing_else(engine: Engine) -> None:
    hog = "kept = []\ndef call(id, params):\n    while True: kept.append(b'x' * (8 << 20)); time.sleep(0.002)"
    first, second, shell = played(
        engine, hog, ("own__go", {}), ("own__go", {}), ("shell", {"command": "echo here"}), memory_bytes=200 << 20
    )
    assert first.status == second.status == "error"
    assert json.loads(shell.output)["stdout"] == "here\n"


def test_what_hangs_does_not_hold_the_rollout(engine: Engine) -> None:
    first, shell = played(
        engine, "def call(id, params): time.sleep(60)", ("own__go", {}), ("shell", {"command": "echo here"}), wall_s=1.0
    )
    assert first.output == "own__go failed: limit reached: wall"
    assert json.loads(shell.output)["stdout"] == "here\n"
