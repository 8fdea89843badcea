"""Tool servers of a harness, in the tool loop: offered, called, recorded; state that lasts; real servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from packages import runtime
from tool_servers import LOW, REAL, hand, package

from rover.policy.null import NullPolicy
from rover.policy.program import ProgramPolicy, Spec
from rover.policy.protocol import PolicyView
from rover.policy.scripted import ScriptedPolicy
from rover.rollout.engine import Engine
from rover.rollout.env import Env
from rover.rollout.records import MemoryEvidence, RolloutRequest
from rover.rollout.together import Together
from rover.sandbox.protocol import Runtime
from rover_store.records import Call, Trajectory

NOTES = package(notes=REAL)


@pytest.fixture(scope="module")
def box_runtime() -> Iterator[Runtime]:
    made = runtime()
    yield made
    made.close()


@pytest.fixture(scope="module")
def engine(box_runtime: Runtime) -> Iterator[Engine]:
    with Engine(box_runtime) as made:
        yield made


def script(*calls: tuple[str, dict[str, Any]]) -> ScriptedPolicy:
    return ScriptedPolicy.of([{"tool": tool, "arguments": arguments} for tool, arguments in calls], "done")


def played(engine: Engine, env: Env, *calls: tuple[str, dict[str, Any]]) -> Trajectory:
    return engine.rollouts([RolloutRequest(env, script(*calls), 0)])[0].trajectory


def calls_of(trajectory: Trajectory) -> list[Call]:
    assert trajectory.end == "completed", trajectory.error
    return [call for turn in trajectory.turns for call in turn.calls]


def test_a_real_server_keeps_its_state_and_its_writes_are_recorded(engine: Engine) -> None:
    trajectory = played(
        engine,
        NOTES,
        ("notes__add", {"text": "a"}),
        ("shell", {"command": "echo 1 > other.txt"}),
        ("notes__add", {"text": "b", "times": 2}),
        ("notes__save", {"path": "kept.txt"}),
        ("read_file", {"path": "kept.txt"}),
        ("notes__save", {"path": "kept.txt"}),
    )
    one, other, three, saved, read, again = calls_of(trajectory)
    assert (one.output, three.output, saved.output) == ("1", "3", "3 notes saved")
    assert [a.path for a in other.writes] == ["other.txt"]
    assert [a.path for a in saved.writes] == ["kept.txt"]
    assert read.output == "a\nb\nb"
    assert again.writes == ()
    assert again.reads == saved.writes  # it names a file that is there
    trees = [turn.tree for turn in trajectory.turns]
    assert trees[0] == trajectory.start != trees[1]
    assert trees[3] == trees[-1] != trees[2]


def test_what_a_server_refuses_or_is_not_asked_for_is_an_output(engine: Engine) -> None:
    trajectory = played(
        engine,
        NOTES,
        ("notes__refuse", {}),
        ("notes__add", {"txt": "a"}),
        ("notes__add", {"text": 7}),
        ("notes__nothing", {}),
        ("notes__picture", {}),
    )
    refused, missing, wrong, nothing, picture = calls_of(trajectory)
    assert [c.status for c in (refused, missing, wrong, nothing, picture)] == ["error"] * 4 + ["ok"]
    assert "refuse" in refused.output
    assert missing.output == "notes__add: bad arguments: 'text' is a required property"
    assert wrong.output == "notes__add: bad arguments: text: 7 is not of type 'string'"
    assert nothing.output.startswith("no tool is called 'notes__nothing'; offered: list_files, ")
    assert nothing.output.endswith("notes__add, notes__picture, notes__refuse, notes__save")
    assert picture.output == "[left out: image, image/png, 5 bytes]"


def test_pages_structured_content_and_questions_to_the_client(engine: Engine) -> None:
    trajectory = played(engine, package(low=LOW), ("low__t4", {"n": 3}), ("low__t0", {"n": 10}))
    said, wrong = calls_of(trajectory)
    assert json.loads(said.output) == {"tool": "t4", "n": 3, "roots": ["workspace"]}
    assert "10 is greater than the maximum of 9" in wrong.output


class Looking:
    """A policy that keeps what it was shown."""

    attacker = False
    id = "looking"

    def __init__(self) -> None:
        self.views: list[PolicyView] = []
        self.act = script().start(PolicyView("", ()), 0).act

    def start(self, view: PolicyView, seed: int) -> Looking:
        self.views.append(view)
        return self

    def close(self) -> None:
        pass


def test_a_policy_sees_the_tools_of_servers_in_one_order(engine: Engine) -> None:
    listed = 'def tools(): return [{"name": n, "inputSchema": {}} for n in ("z", "a b", "a")]'
    look = Looking()
    engine.rollouts([RolloutRequest(package(two=hand(listed), one=hand()), look, seed) for seed in (0, 1)])  # type: ignore[arg-type]
    first, second = look.views
    assert first == second
    names = [tool.name for tool in first.tools]
    assert names[-4] == "two__a"
    assert names[-3].startswith("two__a_b_")
    assert names[-2:] == ["two__z", "one__go"]
    assert names[:-4] == list(NOTES.harness.tools)
    assert [(t.description, t.parameters) for t in first.tools[-2:]] == [
        ("z", {"type": "object"}), ("Go.", {"type": "object"}),
    ]  # fmt: skip


def test_an_attacker_that_calls_everything_calls_servers_too(engine: Engine) -> None:
    trajectory = engine.rollouts([RolloutRequest(NOTES, NullPolicy("call_all"), 0)])[0].trajectory
    called = {call.tool: call.status for call in calls_of(trajectory)}
    assert called["notes__add"] == "error"
    assert called["notes__picture"] == "ok"


def test_servers_may_write_as_they_start_and_as_they_end(engine: Engine) -> None:
    source = hand('open("started", "w").close()\ndef closing(): open("ended", "w").write("x")')
    result = engine.rollouts([RolloutRequest(package(late=source), script(("late__go", {})), 0)])[0]
    (call,) = calls_of(result.trajectory)
    assert call.writes == ()
    assert set(result.end) >= {"started", "ended"}
    assert result.end["ended"] == b"x"


def test_a_rollout_begins_with_servers_anew_and_servers_of_one_share_no_files(engine: Engine) -> None:
    source = hand(
        'seen = []\n'
        'def call(id, params):\n'
        '    seen.append(1)\n'
        '    here = os.environ["ROVER_MCP"]\n'
        '    text(id, f"{len(seen)} {os.getcwd()} {sorted(os.listdir(here))}")\n'
    )
    env = package(one=source)
    look = "ls $ROVER_MCP /tmp | wc -l"
    runs = [played(engine, env, ("one__go", {}), ("one__go", {}), ("shell", {"command": look})) for _ in range(1)]
    runs += [engine.rollouts([RolloutRequest(env, script(("one__go", {})), 1)])[0].trajectory]
    first = [call.output for call in calls_of(runs[0])]
    assert [words.split()[0] for words in first[:2]] == ["1", "2"]
    assert first[0].split(" ", 2)[2] == "['one.py']"
    assert calls_of(runs[1])[0].output == first[0]
    if engine.runtime.kind == "bubblewrap":
        assert json.loads(first[2])["stdout"].strip() == "0"  # no command sees the servers' own files


def test_lockstep_leaves_packages_with_servers_to_boxes_of_their_own(box_runtime: Runtime) -> None:
    env = package(one=hand())
    requests = [RolloutRequest(env, script(("one__go", {}), ("shell", {"command": "echo 1 > a"})), n) for n in (1, 2)]
    with Together(box_runtime) as together, Engine(box_runtime, MemoryEvidence()) as engine:
        side_by_side = [done.result.trajectory for done in together.play(requests)]
        assert side_by_side == [result.trajectory for result in engine.rollouts(requests)]
    assert calls_of(side_by_side[0])[0].output == "gone"


def test_servers_that_need_a_network_are_kept_and_not_offered(engine: Engine) -> None:
    env = package({"mcp_servers": [{"name": "far", "url": "https://example.org/mcp"}]})
    look = Looking()
    trajectory = engine.rollouts([RolloutRequest(env, look, 0)])[0].trajectory  # type: ignore[arg-type]
    assert trajectory.end == "completed"
    assert [tool.name for tool in look.views[0].tools] == list(env.harness.tools)


AGENT = """
import asyncio, json, os, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    assert os.environ["ROVER_MCP_CONFIG"] == sys.argv[1]
    with open(sys.argv[1]) as stream:
        config = json.load(stream)["mcpServers"]["notes"]
    async with stdio_client(StdioServerParameters(**config)) as streams, ClientSession(*streams) as session:
        await session.initialize()
        for text in ("a", "b"):
            await session.call_tool("add", {"text": text})
        saved = await session.call_tool("save", {"path": "kept.txt"})
        print(saved.content[0].text)

asyncio.run(main())
"""


def test_an_agent_that_is_a_program_starts_the_same_servers_itself(engine: Engine) -> None:
    policy = ProgramPolicy(Spec(("python3", "-c", AGENT, "{mcp_config}")))
    result = engine.rollouts([RolloutRequest(NOTES, policy, 0)])[0]
    assert (result.trajectory.end, result.trajectory.error) == ("completed", "")
    assert result.trajectory.final_message == "2 notes saved"
    assert result.end["kept.txt"] == b"a\nb"
    assert set(result.end) == {*NOTES.start, "kept.txt"}
