"""Agent programs in every runtime: honest ones give turns and trees, hostile ones get nowhere and leave nothing."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_kills import find, marked
from boxes import REAL, make
from chat_server import ChatServer, call, completion
from descendants import adopting, below, until_gone
from packages import INSTRUCTION, NOTES, ORDERS, REPORT, summary_package, summary_resources

from rover.harness.loop import Job, Played, Stopped
from rover.harness.manifest import of_files
from rover.harness.program import play_program
from rover.policy.openai import Settings
from rover.policy.program import ProgramPolicy, Spec
from rover.rollout.engine import Engine
from rover.rollout.env import env_from_files
from rover.rollout.records import RolloutRequest
from rover.sandbox.protocol import Runtime, Sandbox
from rover_store.records import Budget, Harness, Limits, McpServer, RolloutKey
from rover_store.trees import tree_id

AGENTS = Path(__file__).parents[1] / "agents"
START = {"notes.md": NOTES, "orders.csv": ORDERS}
WRITE = f"cat > report.csv <<'END'\n{REPORT.decode()}END"
QUICK = Settings(request_s=1.0, retries=1, backoff_s=0.01)
#: asks the model once
ASK = """
import json, os, socket, subprocess, sys, time, urllib.error, urllib.request
def ask(body=None, path="/chat/completions", **more):
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **more} if body is None else body
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + path, data=data)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
def raw(data, wait=5):
    link = socket.create_connection(("127.0.0.1", int(os.environ["OPENAI_BASE_URL"].split(":")[2].split("/")[0])))
    link.settimeout(wait)
    got = b""
    try:
        link.sendall(data)
        while piece := link.recv(65536):
            got += piece
    except OSError:
        pass
    return got
"""


@pytest.fixture(scope="module", params=[kind for kind in REAL if kind not in ("bubblewrap-copy", "landlock-4")])
def runtime(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    made = make(request.param)
    yield made
    made.close()


@pytest.fixture(scope="module")
def plain(runtime: Runtime) -> Iterator[Sandbox]:
    """A box that shows nothing more."""
    box = runtime.open(START)
    yield box
    box.close()


def job(limits: Limits | None = None, **budget: Any) -> Job:
    harness = Harness(tools=("shell",), limits=limits or Limits())
    key = RolloutKey(
        context="0" * 40, task="1" * 40, harness="2" * 40, policy="p", seed=7,
        budget=Budget(**{"seconds": 30.0, **budget}), runtime="r",
    )  # fmt: skip
    start = of_files(START)
    return Job(key, "orders", INSTRUCTION, harness, start, tree_id(start))


def python(script: str, *words: str) -> Spec:
    return Spec(("python3", "-S", "-c", ASK + script, *words))


def play(box: Sandbox, spec: Spec, *steps: Any, of: Job | None = None, **options: Any) -> tuple[Played, ChatServer]:
    """One rollout against a server that says these steps."""
    box.reset(START)
    with ChatServer(*(steps or ("Done.",))) as server:
        policy = ProgramPolicy(spec, model="served", server=server.url, key="secret", settings=QUICK, **options)
        return play_program(box, policy, of or job(), clock=time.monotonic), server


def contents(played: Played, tree: str) -> dict[str, str]:
    return {path: item.id[:8] for path, item in played.trees[tree].items()}


# --- honest ones -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("how", ["", "--stream", "<stdin"])
def test_turns_outputs_versions_and_trees(runtime: Runtime, how: str) -> None:
    words = ["python3", "-S", "{agent}/tool_agent.py", "{instruction}", how]
    spec = Spec(tuple(words[: 3 if how == "<stdin" else 5 if how else 4]))
    steps = (call("head -n 2 orders.csv"), [call("echo 1 > a"), call("echo 2 > b; exit 3")], call(f"rm a b; {WRITE}"))
    policy = ProgramPolicy(spec, agent=AGENTS)
    box = runtime.open(START, place=policy.place)
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


# --- hostile ones ------------------------------------------------------------------------------------------------
@pytest.fixture
def quiet(runtime: Runtime, plain: Sandbox) -> Iterator[Sandbox]:
    """The box; afterwards nothing of an agent is left in it, and it works."""
    yield plain
    plain.reset(START)
    seen = plain.run(["sh", "-c", "ls -d /proc/[0-9]* | wc -l; ls -A ${TMPDIR:-/tmp}"]).stdout.split()
    assert len(seen) == 1, seen
    assert int(seen[0]) <= 4 or "private processes" in getattr(runtime, "unmet", ())
    assert sorted(plain.snapshot().entries) == sorted(START)


DAEMON = """
import signal
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for n in range(1, 65):
            try: signal.signal(n, signal.SIG_IGN)
            except OSError: pass
            except ValueError: pass
        while True:
            time.sleep(0.05); open("beat", "a").write("x")
    os._exit(0)
time.sleep(0.3)
"""


def test_daemons_end_with_it(quiet: Sandbox) -> None:
    played, _ = play(quiet, python(DAEMON + "ask()"))
    assert played.trajectory.end == "completed"
    time.sleep(0.3)
    assert quiet.snapshot().entries["beat"].size == len(
        next(data for data in played.blobs.values() if data.startswith(b"x") and data == b"x" * len(data)
             and len(data) == quiet.snapshot().entries["beat"].size)
    )  # fmt: skip


def test_one_that_ignores_being_asked_to_end(quiet: Sandbox) -> None:
    deaf = "import signal\n[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]\n"
    script = deaf + DAEMON + "while True: time.sleep(1)"
    began = time.monotonic()
    played, _ = play(quiet, python(script), of=job(seconds=1.0))
    assert played.trajectory.error == "the budget of 1 seconds is used up"
    assert time.monotonic() - began < 8


LIBC = "import ctypes; libc = ctypes.CDLL(None, use_errno=True); "
SUICIDES = {
    "itself": "os.kill(os.getpid(), 9)",
    "its group": "os.killpg(0, 9)",
    "by shell": "subprocess.run('kill -9 $PPID', shell=True)",
    "the relay": "os.kill(os.getppid(), 9)",
    "everything": "os.kill(-1, 9)",
    "every process by number": "[os.kill(p, 9) for p in map(int, filter(str.isdigit, os.listdir('/proc')))]",
    "by thread": "import ctypes; print(ctypes.CDLL(None).syscall(234, os.getpid(), os.getpid(), 9))",
    "by descriptor": "import signal; signal.pidfd_send_signal(os.pidfd_open(os.getpid()), 9)",
    "by a file's signal": "import fcntl; fcntl.fcntl(0, 10, 9)",
    "by a limit": "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))",
    "by its own limit": "import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\n while True: pass",
    "the relay's group": "os.killpg(os.getpgid(os.getppid()), 9)",
    "by a timer": LIBC + """
 event = (ctypes.c_int * 16)(0, 0, 9, 0); at = (ctypes.c_long * 4)(0, 0, 0, 1000000); timer = ctypes.c_int(0)
 print(libc.syscall(222, 1, event, ctypes.byref(timer)), libc.syscall(223, timer, 0, at, 0))""",
    "by a child's end": LIBC + """
 if libc.syscall(56, 9, 0, 0, 0, 0) == 0: os._exit(0)""",
    "by strict mode": LIBC + "print(libc.prctl(22, 1, 0, 0, 0))",
}
#: signals to the relay: whatever ends it is the agent's doing
#: a thread has a number that no filter knows
THREAD = "import threading; t = threading.Thread(target=lambda: time.sleep(9)); t.start(); os.kill(t.native_id, 9)"
SIGNALS = {
    "a fault": "os.kill(os.getppid(), 11)",
    "an abort": "os.kill(os.getppid(), 6)",
    "a real-time signal": "os.kill(os.getppid(), 40)",
    "faults for all": "import signal; signal.signal(11, signal.SIG_IGN); os.kill(-1, 11)",
    "and for itself as its parent dies": LIBC + "libc.prctl(1, 9, 0, 0, 0); os.kill(os.getppid(), 11)",
}


@pytest.mark.parametrize("name", sorted(SUICIDES))
def test_it_cannot_make_a_failure_look_like_an_accident(quiet: Sandbox, name: str) -> None:
    script = f"try:\n {SUICIDES[name]}\nexcept BaseException as e: print(e)\ntime.sleep(0.2); sys.exit(4)"
    played, _ = play(quiet, python(script))
    assert played.trajectory.end == "policy_error", played.trajectory.error
    assert "exit code 4" in played.trajectory.error


@pytest.mark.parametrize("name", sorted(SIGNALS))
def test_a_signal_that_ends_the_relay_is_the_agent_s_doing(quiet: Sandbox, name: str) -> None:
    script = f"open('x', 'w').write('1')\ntry:\n {SIGNALS[name]}\nexcept OSError as e: print(e)\ntime.sleep(9)"
    played, _ = play(quiet, python(script), of=job(seconds=20.0))
    assert played.trajectory.end == "policy_error", played.trajectory.error
    assert "signal" in played.trajectory.error
    assert "x" in played.end


def test_a_relay_that_stands_still_does_not_hide_what_was_done(quiet: Sandbox) -> None:
    script = "open('x', 'w').write('1'); os.kill(os.getppid(), 19); time.sleep(1)"
    played, _ = play(quiet, python(script), of=job(seconds=2.0))
    assert played.trajectory.end == "policy_error", played.trajectory.error
    assert "x" in played.end
    assert "x" in played.trees[played.trajectory.turns[-1].tree]


def test_one_that_is_killed_twice_did_it_itself(runtime: Runtime) -> None:
    env = env_from_files(summary_package(), summary_resources())
    policy = ProgramPolicy(python(f"open('x', 'w').write('1'); {THREAD}; time.sleep(5); sys.exit(4)"))
    with Engine(runtime) as engine:
        ((result, verdict),) = engine.run([RolloutRequest(env, policy, 3)])
    assert (verdict.outcome, result.trajectory.end) == ("policy_error", "policy_error"), result.trajectory.error
    if "exit code" not in result.trajectory.error:  # a sandbox that bounds signals by process asks for none of this
        assert "killed from outside" in str(result.trajectory.retried)
    assert "x" in result.end


def test_its_own_children_it_may_kill(quiet: Sandbox) -> None:
    script = """
child = subprocess.Popen(["sleep", "60"], start_new_session=True)
os.killpg(child.pid, 9); assert child.wait() == -9
child = subprocess.Popen(["sleep", "60"]); child.kill(); assert child.wait() == -9
assert subprocess.call(["timeout", "1", "sleep", "60"]) == 124
ask()
"""
    played, _ = play(quiet, python(script))
    assert played.trajectory.end == "completed", played.trajectory.error


BROKEN_HTTP = [
    b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00" * 50 + b"\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: ten\r\n\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\n folded: x\r\n\r\n", b"GET /v1/models HTTP/1.1\nHost: x\n\n",
]  # fmt: skip


def test_broken_http_is_answered_and_done_with(quiet: Sandbox) -> None:
    script = f"""
for data in {BROKEN_HTTP!r} + [b"GET /" + b"x" * 70_000, b"GET / HTTP/1.1\\r\\n" + b"a: b\\r\\n" * 9000 + b"\\r\\n"]:
    got = raw(data, 0.5 if not data.strip() else 5)
    status = got.split(b" ")[1] if got else b"none"
    print(status.decode(), end=" ")
print(ask()[0])
"""
    played, server = play(quiet, python(script))
    assert played.trajectory.program is not None
    said = played.trajectory.program.stdout.split()
    assert " ".join(said) == "none 400 400 505 400 413 400 400 400 501 400 400 431 431 200"
    assert (played.trajectory.end, len(server.asked), played.trajectory.program.refused) == ("completed", 1, 0)


BAD_REQUESTS: list[tuple[str, int]] = [
    ("b'nonsense'", 400), ("b'[1]'", 400), ("b'{}'", 400), ("{'messages': []}", 400), ("{'messages': [7]}", 400),
    ("{'messages': [{'role': 'x'}]}", 400), ("b'[' * 100000", 400), ("b'{\"messages\": NaN}'", 400),
    ("b'{\"messages\": \"\\\\ud800\"}'", 400), ("b'{\"x\": 1e999}'", 400),
    ("{'messages': [{'role': 'user'}], 'n': 5}", 400), ("{'messages': [{'role': 'user'}], 'stream': 'yes'}", 400),
    ("{'messages': [{'role': 'user'}], 'model': 7}", 400),
]  # fmt: skip


def test_requests_that_are_none_reach_no_server(quiet: Sandbox) -> None:
    script = f"""
for body in [{", ".join(body for body, _ in BAD_REQUESTS)}]:
    print(ask(body)[0], end=" ")
for path in ("/completions", "/responses", "/embeddings", "/../../etc/passwd", "/models"):
    print(ask(b"{{}}", path)[0], end=" ")
print(json.load(urllib.request.urlopen(os.environ["OPENAI_BASE_URL"] + "/models"))["data"][0]["id"])
"""
    played, server = play(quiet, python(script))
    assert played.trajectory.program is not None, played.trajectory
    said = played.trajectory.program.stdout.split()
    assert said == [*(str(status) for _, status in BAD_REQUESTS), "404", "404", "404", "404", "405", "served"]
    assert server.asked == []
    assert played.trajectory.program.refused == len(BAD_REQUESTS) + 5


def test_floods(quiet: Sandbox) -> None:
    """Many connections, many requests at once, bodies as large as may be, requests that never end."""
    script = """
import threading
port = int(os.environ["OPENAI_BASE_URL"].split(":")[2].split("/")[0])
idle = []
for n in range(200):
    link = socket.create_connection(("127.0.0.1", port)); link.sendall(b"POST /v1/chat"); idle.append(link)
time.sleep(0.2)
full = 0
for link in idle:
    link.setblocking(False)
    try: full += link.recv(100)[9:12] in (b"503", b"")
    except BlockingIOError: pass
    except OSError: full += 1
    link.close()
print("full", full)
time.sleep(0.3)
found = []
big = b"[" + b"1," * (3 << 20) + b"1]"
def one(): found.append(ask(big)[0])
threads = [threading.Thread(target=one) for _ in range(40)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(set(found)), len(found))
pipelined = b"GET /v1/models HTTP/1.1\\r\\n\\r\\n" * 150
print(raw(pipelined + b"GET /v1/models HTTP/1.1\\r\\nConnection: close\\r\\n\\r\\n").count(b" 200 OK"))
print(ask()[0])
"""
    played, server = play(quiet, python(script), of=job(Limits(processes=300)))
    assert played.trajectory.program is not None
    full, floods, pipelined, last = played.trajectory.program.stdout.splitlines()
    assert int(full.split()[1]) >= 130
    assert floods in ("[400] 40", "[400, 429] 40", "[429] 40")
    assert (pipelined, last, played.trajectory.end) == ("151", "200", "completed")
    assert len(server.asked) == 1


def test_endless_nonsense_ends_it(quiet: Sandbox) -> None:
    played, _ = play(quiet, python("while True: ask(b'nonsense')"))
    assert played.trajectory.end == "policy_error"
    assert "requests that are none" in played.trajectory.error


def test_a_slow_request_holds_up_nobody(quiet: Sandbox) -> None:
    script = """
link = socket.create_connection(("127.0.0.1", int(os.environ["OPENAI_BASE_URL"].split(":")[2].split("/")[0])))
link.sendall(b"POST /v1/chat/completions HTTP/1.1\\r\\nContent-Length: 1000\\r\\n\\r\\n{")
began = time.monotonic(); print(ask()[0], time.monotonic() - began < 3)
"""
    played, _ = play(quiet, python(script))
    assert played.trajectory.program is not None
    assert played.trajectory.program.stdout == "200 True\n"


def test_the_channel_is_not_the_agent_s(quiet: Sandbox) -> None:
    script = """
relay = os.getppid()
def tried(f):
    try: return repr(f())[:80]
    except Exception as e: return type(e).__name__
import ctypes, signal
libc = ctypes.CDLL(None, use_errno=True)
def getfd():
    fd = libc.syscall(438, os.pidfd_open(relay), 3, 0)
    if fd < 0: raise OSError(ctypes.get_errno())
    return fd
ways = [lambda: open(f"/proc/{relay}/fd/3", "rb").read(1), getfd, lambda: open(f"/proc/{relay}/mem", "r+b")]
print(list(map(tried, ways)))
for n in (1, 2, 10, 12, 14, 15): os.kill(relay, n)
os.closerange(3, 100)
print(ask()[0])
"""
    played, _ = play(quiet, python(script))
    assert played.trajectory.program is not None
    tried, asked = played.trajectory.program.stdout.splitlines()
    assert "Error" in tried.split(",")[0]
    assert "Error" in tried.split(",")[1]
    assert "Error" in tried.split(",")[2]
    assert (asked, played.trajectory.end) == ("200", "completed")


def test_it_reaches_neither_host_nor_verifier(quiet: Sandbox) -> None:
    host = socket.create_server(("127.0.0.1", 0))
    script = f"""
def tried(f):
    try: f(); return "reached"
    except Exception as e: return "refused"
print(tried(lambda: socket.create_connection(("127.0.0.1", {host.getsockname()[1]}), 2)))
print(tried(lambda: socket.create_connection(("1.1.1.1", 53), 2)))
print(tried(lambda: open({str(Path(__file__).resolve())!r}).read()))
print(tried(lambda: open("/proc/1/environ", "rb").read(1) or 1 / 0))
print([name for name in ("/v/verifier", "/verifier", "/w/verifier", "/r/rover") if os.path.exists(name)])
"""
    with host:
        played, _ = play(quiet, python(script))
        assert played.trajectory.program is not None
        assert played.trajectory.program.stdout.splitlines() == ["refused"] * 4 + ["[]"]
        host.settimeout(0.1)
        with pytest.raises(TimeoutError):
            host.accept()


def test_a_workspace_that_never_stands_still(quiet: Sandbox) -> None:
    script = """
if os.fork() == 0:
    n = 0
    while True: n += 1; open("a", "w").write(str(n)); open("b", "w").write(str(n))
time.sleep(0.1)
for _ in range(6): ask()
"""
    played, _ = play(quiet, python(script))
    assert played.trajectory.end == "completed"
    assert len(played.trajectory.turns) >= 6
    for tree in {turn.tree for turn in played.trajectory.turns}:
        for item in played.trees[tree].values():
            assert item.id in played.blobs or item.id in {i.id for i in of_files(START).values()}


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
def test_killed_from_outside_is_infrastructure(runtime: Runtime, what: str) -> None:
    marker = f"agent-{os.getpid()}-{what}"
    with adopting() as ours:
        box = runtime.open(START)
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
