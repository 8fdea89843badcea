"""Tool servers that fail or misbehave: whose fault it is, and that nothing hangs or is left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from packages import runtime
from tool_servers import hand, package

from rover.harness.loop import Stopped
from rover.harness.mcp import servers
from rover.policy.scripted import ScriptedPolicy
from rover.rollout.engine import Engine
from rover.rollout.env import Env
from rover.rollout.records import RolloutRequest
from rover_store.errors import PackageError
from rover_store.records import Call, Trajectory

GO = {"tool": "bad__go", "arguments": {}}
TOOLS = "def tools(): return "
TOOL = '{"name": "go", "inputSchema": %s}'


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made = runtime()
    with Engine(made) as opened:
        yield opened
    made.close()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "START_S", 3.0)
    monkeypatch.setattr(servers, "END_S", 0.5)


def played(engine: Engine, env: Env, *calls: dict[str, Any]) -> Trajectory:
    return engine.rollouts([RolloutRequest(env, ScriptedPolicy.of(list(calls), "done"), 0)])[0].trajectory


def said(engine: Engine, more: str, **limits: Any) -> list[Call]:
    """What two calls of a server say, and a command after them."""
    env = package({"limits": limits}, bad=hand(more))
    trajectory = played(engine, env, GO, GO, {"tool": "shell", "arguments": {"command": "echo here"}})
    assert trajectory.end == "completed", trajectory.error
    calls = [call for turn in trajectory.turns for call in turn.calls]
    assert calls.pop().status == "ok"
    return calls


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import sys; sys.exit('no luck')", "bad ended with exit code 1: no luck"),
        ("import os; os.kill(os.getpid(), 9)", "bad ended by signal 9"),
        ("import os, time; os.close(1); time.sleep(9)", "bad closed its output"),
        (hand("def initialize(id, params): say(id=id, result={'protocolVersion': '1999-01-01'})"),
         "bad: it speaks version '1999-01-01' of the protocol"),
        (hand("def initialize(id, params): say(id=id, error={'code': 1, 'message': 'not today'})"), "bad: not today"),
        (hand("def initialize(id, params): say(id=id, result=[1])"), "bad: its answer to initialize holds no result"),
        (hand("def initialize(id, params): print('[' * 99999 + ']' * 99999, flush=True); sys.exit(4)"),
         "bad ended with exit code 4"),
        (hand("def list_tools(id, params): say(id=id, result={'tools': 7})"), "bad: its list of tools is none"),
        (hand("def list_tools(id, params): say(id=id, result={'tools': tools(), 'nextCursor': 'x'})"),
         "bad: its list of tools has more than 64 pages"),
        (hand("def list_tools(id, params): print('x' * (20 << 20), flush=True)"), "its list of tools is larger than"),
        (hand(TOOLS + "[{'name': str(n), 'inputSchema': {}} for n in range(129)]"),
         "the tool servers offer 129 tools, more than 128"),
        (hand(TOOLS + "[{'name': 'go', 'inputSchema': {}}] * 2"), "bad: it lists 'go' twice"),
        (hand(TOOLS + "[{'name': 7, 'inputSchema': {}}]"), "bad: a tool has no name"),
        (hand(TOOLS + "[7]"), "bad: a tool has no name"),
        (hand(TOOLS + "[{'name': 'go', 'inputSchema': {'type': 'array'}}]"),
         "bad: the schema of 'go' is not of type object"),
        (hand(TOOLS + "[{'name': 'go'}]"), "bad: the schema of 'go' is no object"),
        (hand(TOOLS + "[{'name': 'go', 'inputSchema': {'enum': ['x' * 200000]}}]"),
         "bad: the schema of 'go' holds more than 131072 bytes"),
        (hand("def deep(n): return {'a': deep(n - 1)} if n else {}\n" + TOOLS +
              "[{'name': 'go', 'inputSchema': deep(60)}]"), "bad: the schema of 'go' is nested deeper than 40"),
    ],
)  # fmt: skip
def test_a_server_that_does_not_come_up_is_the_harness_fault(engine: Engine, source: str, reason: str) -> None:
    trajectory = played(engine, package(bad=source), GO)
    assert (trajectory.end, trajectory.turns) == ("infra_error", ())
    assert trajectory.error.startswith("HarnessError: ")
    assert reason in trajectory.error


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import time; time.sleep(60)", "bad did not answer within 0.6 s"),
        ("print('hello\\n' * 3, flush=True); import time; time.sleep(60)", "(3 lines of output were no messages)"),
        ("while True: print('x' * 1000)", "lines of output were no messages)"),
        ("import sys, time; print('busy', file=sys.stderr, flush=True); time.sleep(60)", "within 0.6 s: busy"),
    ],
)  # fmt: skip
def test_a_server_that_never_answers_is_not_waited_for(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, source: str, reason: str
) -> None:
    monkeypatch.setattr(servers, "START_S", 0.6)
    began = time.monotonic()
    trajectory = played(engine, package(bad=source), GO)
    assert trajectory.end == "infra_error"
    assert reason in trajectory.error
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("more", "output"),
    [
        ("def call(id, params): sys.exit('out of ink')", "the server bad ended with exit code 1: out of ink"),
        ("def call(id, params): os.kill(os.getpid(), 9)", "the server bad ended by signal 9"),
        ("def call(id, params): os.kill(os.getppid(), 9)", "the tool servers were killed"),
        ("def call(id, params): print('x' * (17 << 20), flush=True)", "the answer was longer than 16777216 bytes"),
    ],
)
def test_a_server_that_ends_in_a_call_is_an_output(engine: Engine, more: str, output: str) -> None:
    first, second = said(engine, more)
    assert (first.status, first.output) == ("error", f"bad__go failed: {output}")
    assert (second.status, second.output) == ("error", f"bad__go failed: {output}")


@pytest.mark.parametrize(
    "more",
    [
        "def call(id, params): time.sleep(60)",
        "def call(id, params):\n    while True: print('x' * 1000)",
        "def call(id, params):\n    while True: say(method='ping', id=1)",
        "def call(id, params):\n    while True: print('x' * 1000, end='', flush=True); time.sleep(0.001)",
    ],
)
def test_a_call_takes_no_longer_than_any_other(engine: Engine, more: str) -> None:
    first, second = said(engine, more, wall_s=0.4)
    assert first.output == second.output == "bad__go failed: limit reached: wall"


def test_an_answer_that_comes_late_is_not_taken_for_another_one(engine: Engine) -> None:
    more = (
        "count = []\n"
        "def call(id, params):\n"
        "    count.append(id)\n"
        "    time.sleep(0.6 if len(count) == 1 else 0)\n"
        "    text(id, str(len(count)))"
    )
    first, second = said(engine, more, wall_s=0.4)
    assert first.output == "bad__go failed: limit reached: wall"
    assert second.output == "2"


def test_memory_of_all_servers_is_bounded_together(engine: Engine) -> None:
    more = "kept = []\ndef call(id, params):\n    while True: kept.append(b'x' * (8 << 20)); time.sleep(0.002)"
    first, second = said(engine, more, memory_bytes=200 << 20)
    assert first.output == second.output == "bad__go failed: limit reached: memory"


@pytest.mark.parametrize(
    ("more", "output"),
    [
        ("def call(id, params): print('no json', [], '{', flush=True); text(id, 'x')", "x"),
        ("def call(id, params): print('7\\n[1, {}]\\n\\n' * 9, flush=True); text(id, 'x')", "x"),
        ("def call(id, params): text(id + 1, 'other'); text(str(id), 'other'); text(id, 'x')", "x"),
        ("def call(id, params): print('e' * (1 << 20), file=sys.stderr, flush=True); text(id, 'x')", "x"),
        ("def call(id, params):\n    for n in range(20000): say(method='ping', id=n)\n    text(id, 'x')", "x"),
        ("def call(id, params):\n    say(method='notifications/tools/list_changed')\n    text(id, 'x')", "x"),
        ("def call(id, params): text(id, 'a\\ud800b')", "a?b"),
        ("def call(id, params): text(id, 'no', isError=True)", "no"),
        ("def call(id, params): say(id=id, error={'code': -32602, 'message': 'odd'})", "odd"),
        ("def call(id, params): say(id=id, error='odd')", "an error"),
        ("def call(id, params): say(id=id, result={})", ""),
        ("def call(id, params): say(id=id, result={'content': [{'type': 'video', 'name': 'v', 'data': '!'}]})",
         "[left out: video, v]"),
        ("def call(id, params): text(id, '{\"a\": 1}', structuredContent={'a': 1})", '{"a": 1}'),
        ("def call(id, params): text(id, 'see', structuredContent={'a': 1})", 'see\n{"a": 1}'),
        ("def call(id, params): text(id, '7', structuredContent={'result': 7})", "7"),
        ("def call(id, params): text(id, 'a', structuredContent={'result': 'a'})", "a"),
        ("def call(id, params): say(id=id, result={'content': [{'type': 'text', 'text': t} for t in 'ab'], "
         "'structuredContent': {'result': ['a', 'b']}})", "a\nb"),
        ("def call(id, params): say(id=id, result={'content': [{'type': 'resource', 'resource': {'uri': 'u:x', "
         "'text': 'inside'}}, {'type': 'resource', 'resource': {'uri': 'u:y', 'blob': 'YWI='}}, "
         "{'type': 'resource_link', 'uri': 'u:z'}]})",
         "inside\n[left out: resource, u:y, 2 bytes]\n[left out: resource_link, u:z]"),
        ("def call(id, params): say(method='sampling/createMessage', id='q', params={})\n"
         "def answered(message): text(max(2, message.get('n', 0)) + 1, str(message['error']['code']))", "-32601"),
    ],
)  # fmt: skip
def test_what_a_server_may_say(engine: Engine, more: str, output: str) -> None:
    env = package(bad=hand(more))
    trajectory = played(engine, env, GO)
    assert trajectory.end == "completed", trajectory.error
    (call,) = trajectory.turns[0].calls
    assert call.output == output
    assert call.status == ("error" if output in ("no", "odd", "an error") else "ok")


def test_output_is_cut_at_the_limit_of_the_harness(engine: Engine) -> None:
    first, _ = said(engine, "def call(id, params): text(id, 'é' * 5000)", output_bytes=1001)
    assert (len(first.output), first.truncated, first.status) == (500, True, "ok")


@pytest.mark.parametrize(
    "result",
    [
        "result=7", "result=None", "answer={}", "result={'content': 7}", "result={'content': [7]}",
        "result={'content': [{'text': 'x'}]}",
    ],
)  # fmt: skip
def test_an_answer_that_is_none_of_the_protocol_is_the_harness_fault(engine: Engine, result: str) -> None:
    trajectory = played(engine, package(bad=hand(f"def call(id, params): say(id=id, {result})")), GO)
    assert trajectory.end == "infra_error"
    assert trajectory.error.startswith("HarnessError: tool server bad: ")


@pytest.mark.parametrize(
    ("depth", "output"), [(900, "[" * 900 + "]" * 900), (5000, "bad__go failed: limit reached: wall")]
)
def test_an_answer_nested_deeply_is_read_or_passed_over(engine: Engine, depth: int, output: str) -> None:
    more = (
        "def call(id, params):\n"
        f"    deep = '[' * {depth} + ']' * {depth}\n"
        "    answer = '{\"jsonrpc\": \"2.0\", \"id\": %d, \"result\": {\"structuredContent\": %s}}'\n"
        "    print(answer % (id, deep), flush=True)"
    )
    first, _ = said(engine, more, wall_s=0.5)
    assert first.output == output


def test_a_server_that_stops_everything_is_given_up(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "PATIENCE", 0.5)
    more = "def call(id, params): import signal; os.kill(os.getppid(), signal.SIGSTOP)"
    trajectory = played(engine, package({"limits": {"wall_s": 0.5}}, bad=hand(more)), GO)
    assert trajectory.end == "infra_error"
    assert "does not answer" in trajectory.error


def test_a_server_that_does_not_end_is_ended(engine: Engine) -> None:
    more = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\ndef closing(): time.sleep(60)"
    began = time.monotonic()
    first, _ = said(engine, more)
    assert first.output == "gone"
    assert time.monotonic() - began < 15


def test_records_that_cannot_start_are_bad_input_before_anything_runs(engine: Engine) -> None:
    env = package({"mcp_servers": [{"name": "x", "command": ["python3", "{mcp}/no.py"]}]}, bad=hand())
    with pytest.raises(PackageError, match=r"harness/harness.json: mcp_servers.0.command.1: harness/mcp/no.py is not"):
        played(engine, env, GO)


def test_a_stop_ends_a_call_that_hangs(engine: Engine) -> None:
    env = package(bad=hand("def call(id, params): open('called', 'w').close(); time.sleep(60)"))
    requests = [RolloutRequest(env, ScriptedPolicy.of([GO]), seed) for seed in range(2)]
    began = time.monotonic()
    with Engine(engine.runtime, workers=2) as two, pytest.raises(Stopped):
        two.rollouts(requests, stop=lambda: time.monotonic() - began > 1.0)
    assert time.monotonic() - began < 10
    assert not [thread for thread in threading.enumerate() if thread.name == "tool-servers"]
