"""Agent programs in every runtime: honest ones give turns and trees, and how each ends is said."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from agent_kills import find, marked
from agent_programs import AGENTS, START, WRITE, contents, job, play, python
from chat_server import ChatServer, call, completion
from descendants import adopting, below, until_gone
from packages import INSTRUCTION, ORDERS, REPORT

from rover.harness.loop import Job, Played, Stopped
from rover.harness.program import play_program
from rover.policy.program import ProgramPolicy, Spec
from rover.sandbox.protocol import Runtime, Sandbox
from rover_store.records import Limits, McpServer


# --- honest ones -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("how", ["", "--stream", "<stdin"])
def test_turns_outputs_versions_and_trees(agent_runtime: Runtime, how: str) -> None:
    words = ["python3", "-S", "{agent}/tool_agent.py", "{instruction}", how]
    spec = Spec(tuple(words[: 3 if how == "<stdin" else 5 if how else 4]))
    steps = (call("head -n 2 orders.csv"), [call("echo 1 > a"), call("echo 2 > b; exit 3")], call(f"rm a b; {WRITE}"))
    policy = ProgramPolicy(spec, agent=AGENTS)
    box = agent_runtime.open(START, place=policy.place)
    try:
        played, server = play(box, spec, *steps, "Wrote report.csv.", agent=AGENTS)
    finally:
        box.close()
    told = played.trajectory
    assert (told.end, told.error, told.final_message) == ("completed", "", "Wrote report.csv.")
    assert [len(turn.calls) for turn in told.turns] == [1, 2, 1, 0]
    first, second, third = (turn.calls for turn in told.turns[:3])
    assert json.loads(first[0].output)["output"].splitlines() == ORDERS.decode().splitlines()[:2]
    assert [a.path for a in first[0].reads] == ["orders.csv"]
    assert [json.loads(c.output)["exit_code"] for c in second] == [0, 3]
    assert [[a.path for a in c.writes] for c in second] == [["a"], ["b"]]
    assert {a.path: a.blob is None for a in third[0].writes} == {"a": True, "b": True, "report.csv": False}
    assert [sorted(contents(played, t.tree)) for t in told.turns] == [
        ["notes.md", "orders.csv"],
        ["a", "b", "notes.md", "orders.csv"],
        ["notes.md", "orders.csv", "report.csv"],
        ["notes.md", "orders.csv", "report.csv"],
    ]
    assert REPORT in played.blobs.values()
    assert (told.usage.prompt_tokens, told.usage.completion_tokens) == (400, 40)
    assert told.program is not None
    assert (told.program.exit_code, told.program.models) == (0, ("some-model",))
    assert told.program.stdout == "The model says: Wrote report.csv.\n"
    assert {(asked["model"], asked["seed"], asked.get("stream")) for asked in server.asked} == {("served", 7, None)}
    assert server.asked[0]["messages"][1]["content"] == INSTRUCTION
    assert set(server.keys) == {"Bearer secret"}


def test_one_that_acts_by_text(plain: Sandbox) -> None:
    script = """
import re
messages = [{"role": "user", "content": "Go."}]
while True:
    said = ask({"model": "m", "messages": messages})[1]["choices"][0]["message"]["content"]
    block = re.search("```bash\\n(.*?)\\n```", said, re.S)
    if block:
        done = subprocess.run(block.group(1), shell=True, stdout=subprocess.PIPE).stdout.decode()
    elif "<look>" in said:
        done = "two files"
    else:
        break
    messages += [{"role": "assistant", "content": said}, {"role": "user", "content": "Output: " + done}]
"""
    steps = ("I list.\n```bash\nls\n```\n", "<look>orders</look>", "So:\n```bash\necho 1 > x\n```", "All done.")
    played, _ = play(plain, python(script), *steps)
    told = played.trajectory
    assert [[(c.tool, c.output) for c in turn.calls] for turn in told.turns] == [
        [("bash", "Output: notes.md\norders.csv\n")], [("text", "Output: two files")], [("bash", "Output: ")], [],
    ]  # fmt: skip
    assert told.turns[2].calls[0].arguments == {"command": "echo 1 > x"}
    assert [a.path for a in told.turns[2].calls[0].writes] == ["x"]
    assert (told.end, told.final_message) == ("completed", "All done.")


def test_a_plain_program_is_one_turn(plain: Sandbox) -> None:
    played, server = play(plain, Spec(("sh", "-c", f"{WRITE}\necho done {{model}}")))
    told = played.trajectory
    (turn,) = told.turns
    assert [(c.tool, c.output, [a.path for a in c.writes]) for c in turn.calls] == [
        ("program", "done served\n", ["report.csv"])
    ]
    assert (told.end, told.final_message, server.asked) == ("completed", "done served", [])
    played, _ = play(plain, Spec(("true",)))
    assert (played.trajectory.end, len(played.trajectory.turns)) == ("completed", 1)


def test_what_it_does_before_between_and_after_is_seen(plain: Sandbox) -> None:
    script = "open('early', 'w').write('1'); ask(); open('late', 'w').write('2')"
    played, _ = play(plain, python(script), "Fine.")
    told = played.trajectory
    assert [[(c.tool, [a.path for a in c.writes]) for c in turn.calls] for turn in told.turns] == [
        [("program", ["early"])], [("program", ["late"])],
    ]  # fmt: skip
    assert (told.final_message, "late" in played.end) == ("Fine.", True)


def test_what_it_finds_around_it(plain: Sandbox) -> None:
    script = """
print(json.dumps({k: v for k, v in os.environ.items() if "KEY" in k or "OPENAI" in k or "ROVER" in k}))
def there(fd):
    try: os.fstat(fd); return True
    except OSError: return False
print(json.dumps([sys.argv[1:], list(filter(there, range(100))), open(os.environ["ROVER_INSTRUCTION"]).read()]))
"""
    played, _ = play(plain, python(script, "{instruction_file}", "{{model}}", "{other}"))
    assert played.trajectory.program is not None
    env, rest = map(json.loads, played.trajectory.program.stdout.splitlines())
    assert env["OPENAI_BASE_URL"] == env["OPENAI_API_BASE"]
    assert (env["OPENAI_API_KEY"], env["ROVER_MODEL"]) == ("rover", "served")
    assert "ROVER_CHANNEL" not in env
    assert rest[0] == [env["ROVER_INSTRUCTION"], "{served}", "{other}"]
    assert rest[1] == [0, 1, 2], "nothing but the streams"
    assert rest[2] == INSTRUCTION


def test_an_instruction_is_put_in_once_and_whole(plain: Sandbox) -> None:
    odd = "{model} {instruction}\n'\"$(touch x) ü \\"
    of = job()
    played, _ = play(plain, Spec(("printf", "%s|%s", "{instruction}", "{model}")), of=Job(
        of.key, of.package, odd, of.harness, of.start, of.start_tree
    ))  # fmt: skip
    assert played.trajectory.program is not None
    assert played.trajectory.program.stdout == f"{odd}|served"


def test_the_harness_s_tool_servers_are_offered_to_it(plain: Sandbox) -> None:
    of = job()
    server = McpServer(name="desk", command=("python3", "{mcp}/desk.py"), env={"MODE": "{mcp}"})
    with_servers = of.harness.model_copy(update={"mcp_servers": (server,)})
    of = replace(of, harness=with_servers, carried={"desk.py": b"#!/usr/bin/env python3\nprint('served')\n"})
    script = """
assert sys.argv[1] == os.environ["ROVER_MCP_CONFIG"]
desk = json.load(open(sys.argv[1]))["mcpServers"]["desk"]
assert desk["env"]["MODE"] == os.environ["ROVER_MCP"], desk
print(subprocess.check_output([desk["command"], *desk["args"]]).decode(), os.access(desk["args"][0], os.X_OK))
"""
    played, _ = play(plain, python(script, "{mcp_config}"), of=of)
    assert played.trajectory.program is not None
    assert (played.trajectory.end, played.trajectory.program.stdout) == ("completed", "served\n True\n")


# --- how it ends -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("script", "end", "error"),
    [
        ("ask(); sys.exit(3)", "completed", ""),  # it had a last word
        ("print('no luck'); sys.exit(3)", "policy_error", "the agent ended with exit code 3: no luck"),
        ("os.kill(os.getpid(), 11)", "policy_error", "the agent ended with signal 11"),
        ("1 / 0", "policy_error", "the agent ended with exit code 1: Traceback"),
        ("x = b'x' * (6 << 30)", "policy_error", "MemoryError"),
    ],
)
def test_ends(plain: Sandbox, script: str, end: str, error: str) -> None:
    played, _ = play(plain, python(script))
    assert played.trajectory.end == end, played.trajectory.error
    assert error in played.trajectory.error


@pytest.mark.parametrize("program", ["no-such-program", "/tmp", "orders.csv"])
def test_what_cannot_be_started_is_no_failure_of_an_agent(plain: Sandbox, program: str) -> None:
    played, _ = play(plain, Spec((program,)))
    assert played.trajectory.end == "infra_error"
    assert played.trajectory.error.startswith(f"HarnessError: the program cannot be started: {program}: ")


def test_budgets(plain: Sandbox) -> None:
    loop = "while ask()[0] == 200: pass\nprint(ask(), flush=True); time.sleep(60)"
    began = time.monotonic()
    played, server = play(plain, python(loop), call("echo"), of=job(turns=3))
    assert (played.trajectory.end, played.trajectory.error) == ("policy_error", "the budget of 3 turns is used up")
    assert (len(played.trajectory.turns), len(server.asked)) == (3, 4)
    assert played.trajectory.program is not None
    assert "insufficient_quota" in played.trajectory.program.stdout
    played, _ = play(plain, python(loop), "Go on.", of=job(tokens=300))
    assert (played.trajectory.end, played.trajectory.error) == ("policy_error", "the budget of 300 tokens is used up")
    assert (len(played.trajectory.turns), played.trajectory.usage.prompt_tokens) == (2, 300)
    played, _ = play(plain, python("open('x', 'w').write('1'); time.sleep(60)"), of=job(seconds=0.5))
    assert (played.trajectory.end, played.trajectory.error) == ("policy_error", "the budget of 0.5 seconds is used up")
    assert "x" in played.end
    assert time.monotonic() - began < 20


def test_turns_are_counted_however_an_agent_acts(plain: Sandbox) -> None:
    loop = "while ask()[0] == 200: pass"
    played, server = play(plain, python(loop), "Go on.", of=job(turns=3))
    assert (played.trajectory.end, played.trajectory.error) == ("policy_error", "the budget of 3 turns is used up")
    assert (len(played.trajectory.turns), len(server.asked)) == (4, 4)
    played, _ = play(plain, python("[ask() for _ in range(3)]; ask()"), "Go on.", of=job(turns=3))
    assert played.trajectory.end == "completed", "one more may be a last word"


def test_a_budget_that_ends_in_a_request_is_the_agent_s(plain: Sandbox) -> None:
    script = "ask(); open('x', 'w').write('1'); print(ask())"
    plain.reset(START)
    with ChatServer("Go on.", "stall") as server:
        policy = ProgramPolicy(python(script), model="m", server=server.url)
        played = play_program(plain, policy, job(seconds=3.0), clock=time.monotonic)
    assert (played.trajectory.end, played.trajectory.error) == ("policy_error", "the budget of 3 seconds is used up")
    assert "x" in played.end


@pytest.mark.parametrize("arguments", ['{"\\ud800": "\\ud800"}', '{"a": ' + "[" * 800 + "]" * 800 + "}", '{"a": NaN}'])
def test_arguments_that_no_record_carries_spoil_nothing(plain: Sandbox, arguments: str) -> None:
    step = completion(call("x"), 0)
    said = step["choices"][0]["message"]
    said["content"] = "a\ud800"
    said["tool_calls"][0]["function"] = {"name": "bash\ud800", "arguments": arguments}
    played, _ = play(plain, python("ask(); ask()"), step, "Done.")
    assert played.trajectory.end == "completed", played.trajectory.error
    (made,) = played.trajectory.turns[0].calls
    assert (made.tool, made.status, list(made.arguments)) == ("bash?", "error", ["__malformed__"])
    assert b"ud800" not in played.trajectory.dump() or "ud800" in str(made.arguments)


@pytest.mark.parametrize(("late", "end"), [(1.5, "policy_error"), (0, "infra_error")])
def test_whose_fault_an_answer_is_that_does_not_come_in_time(plain: Sandbox, late: float, end: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        policy = ProgramPolicy(
            python(f"time.sleep({late}); ask()"), model="m", server=f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        )
        played = play_program(plain, policy, job(seconds=2.0), clock=time.monotonic)
    assert played.trajectory.end == end, played.trajectory.error


def test_its_limits_hold(plain: Sandbox) -> None:
    small = job(Limits(memory_bytes=200 << 20, disk_bytes=4 << 20, file_bytes=2 << 20))
    played, _ = play(plain, python("x = [b'x' * (1 << 20) for _ in range(400)]; time.sleep(9)"), of=small)
    assert (played.trajectory.end, played.trajectory.error) == ("policy_error", "limit reached: memory")
    spec = python("while True: pass")
    played, _ = play(plain, Spec(spec.argv, limits={"cpu_s": 1.0}), of=small)
    assert played.trajectory.end == "policy_error"
    assert "cpu" in played.trajectory.error or "signal 24" in played.trajectory.error
    played, _ = play(plain, python("open('big', 'wb').write(b'x' * (3 << 20))"), of=small)
    assert played.trajectory.end == "policy_error"
    played, _ = play(plain, python("sys.stdout.write('x' * (8 << 20)); sys.stdout.flush(); ask()"), of=small)
    assert played.trajectory.end == "completed", "a talkative agent breaks no limit"
    assert played.trajectory.program is not None
    assert len(played.trajectory.program.stdout) == 4000


# --- the model's server ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([("status", 503, "busy")], "HTTP 503: busy"),
        ([("status", 401, "who are you")], "HTTP 401"),
        (["close"], "RemoteProtocolError"),
        (["stall"], "no answer within 1 s"),
        ([("status", 400, "tools: not known")], "refuses what the agent asks: HTTP 400: tools: not known"),
    ],
)
def test_a_server_that_fails_is_never_the_agent_s_failure(plain: Sandbox, steps: list[Any], said: str) -> None:
    played, _ = play(plain, python("sys.exit(ask()[0] != 200)"), *steps)
    assert played.trajectory.end == "infra_error"
    assert played.trajectory.error.startswith("ProviderError: ")
    assert said in played.trajectory.error


def test_what_the_server_says_to_the_agent_s_own_mistakes_reaches_it(plain: Sandbox) -> None:
    long = ("status", 400, "This model's maximum context length is 10 tokens.")
    script = "ask(); status, said = ask(); print(status, said['error']['code']); ask()"
    played, _ = play(plain, python(script), "Go on.", long, "Done.")
    assert played.trajectory.end == "completed", played.trajectory.error
    assert played.trajectory.program is not None
    assert played.trajectory.program.stdout == "400 context_length_exceeded\n"
    assert (played.trajectory.program.refused, len(played.trajectory.turns)) == (1, 2)


def test_no_server_is_said_when_a_model_is_asked_for(plain: Sandbox) -> None:
    plain.reset(START)
    policy = ProgramPolicy(python("ask()"))
    played = play_program(plain, policy, job(), clock=time.monotonic)
    assert played.trajectory.end == "infra_error"
    assert "no server is given" in played.trajectory.error


# --- from outside ------------------------------------------------------------------------------------------------
def test_a_request_to_stop_ends_it_at_once(plain: Sandbox) -> None:
    began, over = time.monotonic(), threading.Event()
    threading.Timer(0.6, over.set).start()
    plain.reset(START)
    with ChatServer("stall") as server:
        policy = ProgramPolicy(python("ask()"), model="m", server=server.url)
        sessions: list[Any] = []
        threading.Timer(0.7, lambda: sessions[0].close()).start()
        with pytest.raises(Stopped):
            play_program(plain, policy, job(), clock=time.monotonic, stop=over.is_set, opened=sessions.append)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("what", ["agent", "relay", "box"])
def test_killed_from_outside_is_infrastructure(agent_runtime: Runtime, what: str) -> None:
    marker = f"agent-{os.getpid()}-{what}"
    with adopting() as ours:
        box = agent_runtime.open(START)
        found: list[Played] = []
        spec = python("ask(); time.sleep(30)", marker)
        thread = threading.Thread(target=lambda: found.append(play(box, spec)[0]))
        thread.start()
        victim = _until(lambda: find(marker, what))
        os.kill(victim, 9)
        thread.join(15)
        assert not thread.is_alive()
        assert found[0].trajectory.end == "infra_error", found[0].trajectory.error
        assert "killed from outside" in found[0].trajectory.error or what == "box"
        box.close()
        assert marked(marker) == []
        ours |= {pid for pid, name in below(os.getpid()).items() if "launcher" in name or "python" in name}
    until_gone(ours)


def _until(found: Callable[[], int | None]) -> int:
    end = time.monotonic() + 15
    while time.monotonic() < end:
        if (one := found()) is not None:
            return one
        time.sleep(0.02)
    raise AssertionError("it did not start")
