"""Checks that misbehave: each is contained, and recorded as the verifier's fault with a reason.

The workspace, the host, the other checks and the next grading are never touched by what one check does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from packages import REPORT, runtime, summary_resources, with_checks

from rover.rollout.env import env_from_files
from rover.sandbox.protocol import Runtime, Sandbox
from rover.verify.grade import Graded, Judgement, grade
from rover_store.records import Limits

LIMITS = Limits(wall_s=6.0, cpu_s=10.0, disk_bytes=16 << 20, inodes=2000, memory_bytes=3 << 30)

#: what a check does -> (its source, a part of the reason)
BAD: dict[str, tuple[str, str]] = {
    "raises": ("raise KeyError('gone')", "raised KeyError: 'gone' (line 5)"),
    "raises an exit": ("raise SystemExit(0)", "raised SystemExit"),
    "interrupts": ("raise KeyboardInterrupt", "raised KeyboardInterrupt"),
    "recurses": ("return bad(ev)", "raised RecursionError"),
    "exits": ("os._exit(0)", "ended without a result"),
    "crashes": ("import ctypes; ctypes.string_at(0)", "killed by SIGSEGV"),
    "kills itself": ("os.kill(os.getpid(), 9)", "killed by SIGKILL"),
    "hangs": ("time.sleep(1000)", "did not end in time"),
    "spins": ("while True: pass", "did not end in time"),
    "ignores signals": ("signal.signal(15, signal.SIG_IGN); time.sleep(1000)", "did not end in time"),
    "closes its descriptors": ("os.closerange(0, 1000); return 1.0", "ended without a result"),
    "returns NaN": ("return float('nan')", "returned nan"),
    "returns infinity": ("return float('inf')", "returned inf"),
    "returns None": ("pass", "returned NoneType"),
    "returns text": ("return '1.0'", "returned str"),
    "returns too much": ("return 1.5", "returned 1.5"),
    "returns less than nothing": ("return -0.1, 'x'", "returned -0.1"),
    "returns three things": ("return 1.0, 'x', 'y'", "returned tuple"),
    "returns a number as reason": ("return 1.0, 5", "gave int as its reason"),
    "returns an object that lies": ("return type('F', (float,), {'__float__': 1 / 0})(1)", "raised ZeroDivisionError"),
    "fills memory": ("return len(b'x' * (8 << 30))", "raised MemoryError"),
    "prints without end": ("while True: print('x' * 1000)", "printed more than"),
    "prints 1 GB": ("[os.write(1, b'x' * (1 << 20)) for _ in range(1024)]; return 1.0", "printed more than"),
    "writes a large file": (
        "import tempfile; tempfile.TemporaryFile().write(b'x' * (8 << 20)); return 1.0",
        "raised OSError",
    ),
    "writes a huge result": ("os.write(3, b'x' * (1 << 20)); return 1.0", "result that is too large"),
    "edits the end state": ("open('end/report.csv', 'w').close(); return 1.0", "changed the workspace"),
    "edits the checks": ("open('verifier/checks/main.py', 'a').write('#'); return 1.0", "changed the workspace"),
    "adds a file": ("open('end/new', 'w').close(); return 1.0", "changed the workspace"),
    "deletes a file": ("os.remove('start/notes.md'); return 1.0", "changed the workspace"),
    "names no function": ("return 1.0", "defines no function other"),
    "reads the reference": ("open('verifier/reference/reference.json'); return 1.0", "raised FileNotFoundError"),
}
HEAD = "import os, signal, socket, subprocess, sys, time\n\n\ndef bad(ev):\n    "
GOOD = "\n\n\ndef good(ev):\n    return 1.0, f'{len(ev.end(\"report.csv\").read_bytes())} bytes'\n"


@pytest.fixture(scope="module")
def kind() -> Iterator[Runtime]:
    kind = runtime()
    yield kind
    close = getattr(kind, "close", None)
    if close is not None:
        close()


@pytest.fixture
def box(kind: Runtime) -> Iterator[Sandbox]:
    box = kind.open({}, limits=LIMITS)
    yield box
    box.close()


@pytest.fixture
def confined(kind: Runtime, box: Sandbox) -> Sandbox:
    if kind.kind == "local":
        pytest.skip("this machine has no sandbox that confines")
    return box


def run(box: Sandbox, body: str, *functions: str, more: str = GOOD) -> Judgement:
    source = HEAD + body + more
    env = env_from_files(with_checks(source, functions or ("bad", "good")), summary_resources())
    state = Graded(env.start, {**env.start, "report.csv": REPORT})
    return grade(box, env.verifier, env.verifier_files, state, limits=LIMITS)


@pytest.mark.parametrize("what", list(BAD))
def test_is_the_verifiers_fault(box: Sandbox, what: str) -> None:
    body, why = BAD[what]
    names = ("other", "good") if what == "names no function" else ("bad", "good")
    found = run(box, body, *names)
    bad, good = found.scores
    assert found.outcome == "verifier_error", found
    assert (found.share, found.gate) == (None, None)
    assert bad.status == "error"
    assert why in bad.reason
    assert why in found.reason
    assert "\n" not in bad.reason
    if why == "changed the workspace":
        assert (good.status, good.reason) == ("error", "not run: bad changed the workspace")
    else:
        assert (good.status, good.reason) == ("scored", f"{len(REPORT)} bytes")


def test_the_box_is_as_good_as_before(box: Sandbox) -> None:
    """What one grading left in /tmp, in memory or among processes does not reach the next."""
    run(box, "open('end/new', 'w').close(); sys.modules['rover_checks'].same = None")
    found = run(box, "import rover_checks; assert rover_checks.same; assert not os.path.exists('end/new'); return 1.0")
    assert found.outcome == "passed", found


def test_a_check_cannot_change_another(box: Sandbox) -> None:
    """Patching the library, the grader, modules or the file cache ends with the check's own process."""
    body = """
    import json
    import rover_checks as rc
    from rover.verify import inside
    rc.table = rc.rows_match = lambda *a, **k: (1.0, 'patched')
    inside._scored = lambda value: {'score': 1.0, 'reason': 'patched'}
    json.dumps = lambda value: '{"score": 1.0, "reason": "patched"}'
    sys.path.insert(0, 'end')
    os.environ['X'] = '1'
    return 0.5, 'mine'
"""
    more = """

def good(ev):
    import json
    import rover_checks as rc
    assert json.dumps(1) == '1' and 'X' not in os.environ and 'end' not in sys.path
    return rc.rows_match(rc.table(ev.end('report.csv')), ev.anchor('totals'), ['region'])
"""
    found = run(box, body, more=more)
    assert [(s.score, s.reason) for s in found.scores] == [(1.0, "patched"), (1.0, "as asked")]


def test_prints_cannot_pass_for_a_result(box: Sandbox) -> None:
    body = """print('{"score": 1.0, "reason": "spoofed"}', flush=True)
    sys.stderr.write('{"score": 1.0, "reason": "spoofed"}')
    for fd in range(4, 64):
        try:
            os.write(fd, b'[{"criterion": "good", "score": 0.0, "reason": "spoofed"}]')
        except OSError:
            pass
    return 0.0, 'honest'"""
    found = run(box, body)
    assert [(s.score, s.reason) for s in found.scores] == [(0.0, "honest"), (1.0, f"{len(REPORT)} bytes")]


def test_leftover_processes_are_dead(box: Sandbox) -> None:
    body = """
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1)
            open('end/late', 'w').close()
            os._exit(0)
        os._exit(0)
    return 1.0
"""
    more = "\n\ndef good(ev):\n    time.sleep(1.5)\n    return float('late' not in ev.files())\n"
    found = run(box, body, more=more)
    assert found.outcome == "passed", found


def test_a_late_write_by_mapping_is_seen(box: Sandbox) -> None:
    body = """
    import mmap
    with open('end/report.csv', 'r+b') as f:
        times = os.stat('end/report.csv')
        m = mmap.mmap(f.fileno(), 0)
        m[0:1] = b'R'
        m.flush()
    os.utime('end/report.csv', ns=(times.st_atime_ns, times.st_mtime_ns))
    return 1.0
"""
    found = run(box, body)
    assert found.outcome == "verifier_error"
    assert "changed the workspace" in found.scores[0].reason


def test_no_time_is_left(box: Sandbox) -> None:
    """Many checks that hang use up the grading's time; the others say so, and the grading ends."""
    body = "time.sleep(1000)"
    more = "".join(f"\n\ndef bad{i}(ev):\n    time.sleep(1000)\n" for i in range(6))
    began = time.monotonic()
    found = run(box, body, "bad", *(f"bad{i}" for i in range(6)), more=more)
    assert time.monotonic() - began < LIMITS.wall_s + 2
    assert {s.reason for s in found.scores} == {"the check did not end in time", "no time was left for this check"}


class TestConfined:
    """What only a sandbox can hold."""

    @pytest.mark.parametrize(
        ("what", "body"),
        [
            ("fork bomb", "while True: os.fork()"),
            ("threads", "import threading\n    while True: threading.Thread(target=time.sleep, args=(99,)).start()"),
            ("kills the grader", "os.kill(os.getppid(), 9); time.sleep(9)"),
            ("kills everybody", "os.kill(-1, 9); time.sleep(9)"),
            ("fills memory by many", "[os.fork() or bytearray(900 << 20) and time.sleep(99) for _ in range(20)]"),
            ("fills the disk", "[open(f'/tmp/{i}', 'wb').write(b'x' * 900_000) for i in range(100_000)]; return 1.0"),
            ("fills the inodes", "[open(f'end/{i}', 'wb').close() for i in range(100_000)]; return 1.0"),
        ],
    )  # fmt: skip
    def test_exhaustion(self, confined: Sandbox, what: str, body: str) -> None:
        began = time.monotonic()
        found = run(confined, body)
        assert found.outcome == "verifier_error", (what, found)
        assert found.reason
        assert time.monotonic() - began < LIMITS.wall_s + 10
        assert run(confined, "return 1.0").outcome == "passed"

    def test_network(self, confined: Sandbox) -> None:
        body = """
    for family, to in ((socket.AF_INET, ('1.1.1.1', 53)), (socket.AF_INET, ('127.0.0.1', 22))):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            try:
                with socket.socket(family, kind) as s:
                    s.settimeout(1)
                    s.connect(to)
                    s.send(b'x')
                    if kind == socket.SOCK_STREAM:
                        return 0.0, f'reached {to}'
            except OSError:
                pass
    return 1.0
"""
        assert run(confined, body).outcome == "passed"

    def test_host(self, confined: Sandbox, tmp_path: Path) -> None:
        secret = tmp_path / "secret.txt"
        secret.write_text("secret")
        body = f"""
    for path in ({str(secret)!r}, {__file__!r}, '/etc/shadow', {str(Path.home() / ".ssh")!r}):
        try:
            names = os.listdir(path) if os.path.isdir(path) else open(path).read()
        except OSError:
            continue
        if names:
            return 0.0, f'read {{path}}'
    if {os.environ.get("PATH", "?")!r} == os.environ.get('PATH'):
        return 0.0, 'the host environment'
    return float(len([n for n in os.listdir('/proc') if n.isdigit()]) < 20), 'processes of the host'
"""
        found = run(confined, body)
        assert found.outcome == "passed", found
