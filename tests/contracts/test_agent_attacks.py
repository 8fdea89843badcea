"""Hostile agent programs in every runtime: they get nowhere, and leave nothing."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest
from agent_programs import START, job, play, python
from packages import summary_package, summary_resources

from rover.harness.manifest import of_files
from rover.policy.program import ProgramPolicy
from rover.rollout.engine import Engine
from rover.rollout.env import env_from_files
from rover.rollout.records import RolloutRequest
from rover.sandbox.protocol import Runtime, Sandbox
from rover_store.records import Limits

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
#: a thread has a number that no filter knows
THREAD = "import threading; t = threading.Thread(target=lambda: time.sleep(9)); t.start(); os.kill(t.native_id, 9)"
#: signals to the relay: whatever ends it is the agent's doing
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


def test_one_that_is_killed_twice_did_it_itself(agent_runtime: Runtime) -> None:
    env = env_from_files(summary_package(), summary_resources())
    policy = ProgramPolicy(python(f"open('x', 'w').write('1'); {THREAD}; time.sleep(5); sys.exit(4)"))
    with Engine(agent_runtime) as engine:
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
