"""A command that lives on: its channel, what the box does for others meanwhile, and how it ends."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from boxes import LIMITS, START, START_IDS

from rover.sandbox.protocol import Completed, Runtime, Sandbox
from rover_store.errors import SandboxError
from rover_store.ids import blob_id

#: answers each line on the channel: runs it as Python, and says so
ECHO = """
import os, socket
channel = socket.socket(fileno=int(os.environ["ROVER_CHANNEL"]))
for line in channel.makefile("r"):
    exec(line)
    channel.sendall(b"done " + line.encode())
"""
#: writes a file as fast as it can
BUSY = """
import os
n = 0
while True:
    n += 1
    open("p", "w").write(str(n)); open("q", "w").write(str(n))
"""


@dataclass
class Living:
    """A command that runs in a thread, and the caller's end of its channel."""

    near: socket.socket
    thread: threading.Thread = field(default_factory=threading.Thread)
    done: list[Completed | BaseException] = field(default_factory=list)

    def ask(self, line: str) -> bytes:
        self.near.sendall(line.encode() + b"\n")
        return self.near.recv(1000)

    def end(self) -> Completed:
        self.near.close()
        self.thread.join(20)
        (done,) = self.done
        if isinstance(done, BaseException):
            raise done
        return done


@contextlib.contextmanager
def living(box: Sandbox, script: str, **limits: float) -> Iterator[Living]:
    near, far = socket.socketpair()
    near.settimeout(20)
    live = Living(near)

    def run() -> None:
        try:
            bounds = LIMITS.model_copy(update={"wall_s": 30, "cpu_s": 20, **limits})
            live.done.append(box.run(["python3", "-S", "-c", script], limits=bounds, channel=far))
        except SandboxError as error:
            live.done.append(error)
        finally:
            far.close()

    live.thread = threading.Thread(target=run)
    live.thread.start()
    try:
        yield live
    finally:
        near.close()
        live.thread.join(20)
        assert not live.thread.is_alive()


def test_a_channel_carries_bytes_both_ways(jail: Sandbox) -> None:
    with living(jail, ECHO) as live:
        assert live.ask("x = 1") == b"done x = 1\n"
        assert live.ask("print('said', x, flush=True)") == b"done print('said', x, flush=True)\n"
        done = live.end()
    assert (done.exit_code, done.stdout, done.breach) == (0, b"said 1\n", None)


def test_snapshots_between_its_steps(jail: Sandbox) -> None:
    with living(jail, ECHO) as live:
        assert {p: e.blob for p, e in jail.snapshot().entries.items()} == START_IDS
        live.ask("open('new', 'w').write('fresh')")
        assert jail.snapshot().new == {blob_id(b"fresh"): b"fresh"}
        live.ask("os.remove('new')")
        assert {p: e.blob for p, e in jail.snapshot().entries.items()} == START_IDS
        live.end()


def test_calls_and_commands_work_beside_it(jail: Sandbox) -> None:
    with living(jail, ECHO) as live:
        live.ask("open('new', 'w').write('1')")
        assert sorted(jail.call("os:listdir", ".").value) == ["a", "new", "same1", "same2", "z z"]
        assert jail.run(["sh", "-c", "echo 2 > new; cat a/b.txt"]).stdout == b"hello\n"
        assert jail.run(["sh", "-c", "sleep 5"], limits=LIMITS.model_copy(update={"wall_s": 0.2})).breach == "wall"
        assert live.ask("print(open('new').read())").startswith(b"done")
        assert live.end().stdout == b"2\n\n"


def test_it_stands_still_meanwhile(jail: Sandbox) -> None:
    with living(jail, BUSY):
        time.sleep(0.2)
        seen = set()
        for _ in range(5):
            done = jail.run(["sh", "-c", "cat p q; sleep 0.05; echo; cat p q"])
            first, second = done.stdout.decode().split("\n")[:2]
            assert first == second, "nothing moved while another command ran"
            seen.add(first)
        assert len(seen) > 1, "between them it went on"
        jail.reset()


def test_what_had_been_stopped_is_not_woken(jail: Sandbox) -> None:
    with living(jail, ECHO) as live:
        live.ask("child = os.fork() or (os.kill(os.getpid(), 19), open('woken', 'w'), os._exit(0))")
        live.ask("os.waitpid(child, os.WUNTRACED)")
        assert jail.run(["true"]).exit_code == 0
        assert "woken" not in jail.snapshot().entries
        live.ask("os.kill(child, 18); os.waitpid(child, 0)")
        assert "woken" in jail.snapshot().entries
        live.end()


@pytest.mark.needs("tool servers apart")
def test_a_command_can_do_nothing_to_a_living_one(jail: Sandbox) -> None:
    attack = """
import os
try:
    seen = {int(name) for name in os.listdir("/proc") if name.isdigit()}
except OSError:
    seen = set()
for pid in {*seen, int(open("pid").read())} - {1, os.getpid(), os.getppid()}:
    for name in ("mem", "environ", "fd/3"):
        try:
            os.close(os.open(f"/proc/{pid}/{name}", os.O_RDONLY))
            print("read", pid, name)
        except OSError:
            pass
    if pid == int(open("pid").read()):
        try:
            os.kill(pid, 9)
            print("killed", pid)
        except OSError:
            pass
"""
    with living(jail, ECHO) as live:
        live.ask("open('pid', 'w').write(str(os.getpid()))")
        done = jail.run(["python3", "-S", "-c", attack])
        assert (done.exit_code, done.stdout, done.stderr) == (0, b"", b"")
        jail.run(["sh", "-c", "kill -9 -1"])
        assert live.ask("x = 1") == b"done x = 1\n"
        live.end()


def test_memory_of_one_is_not_the_other_s(jail: Sandbox) -> None:
    with living(jail, ECHO) as live:
        live.ask("kept = b'x' * (150 << 20)")
        big = "kept = b'x' * (150 << 20); print('ok')"
        done = jail.run(["python3", "-S", "-c", big], limits=LIMITS)
        assert (done.stdout, done.breach) == (b"ok\n", None)
        assert live.end().breach is None


def test_its_limits_hold(jail: Sandbox) -> None:
    with living(jail, "import time; time.sleep(30)", wall_s=0.3) as live:
        assert live.end().breach == "wall"
    with living(jail, "while True: pass", cpu_s=1) as live:
        assert live.end().breach == "cpu"
    with living(jail, "while True: print('x' * 1000)", output_bytes=5000) as live:
        assert live.end().breach == "output"
    with living(jail, "x = [b'x' * (1 << 20) for _ in range(1000)]; input()") as live:
        assert live.end().breach == "memory"


def test_what_it_leaves_running_ends_with_it(jail: Sandbox) -> None:
    script = "import os, time\nif os.fork() == 0:\n os.setsid()\n time.sleep(0.5)\n open('late', 'w')\n"
    with living(jail, script) as live:
        assert live.end().exit_code == 0
    time.sleep(0.7)
    assert "late" not in jail.snapshot().entries


def test_a_reset_ends_it(jail: Sandbox) -> None:
    with living(jail, BUSY) as live:
        time.sleep(0.2)
        jail.reset()
        assert live.end().breach == "cancelled"
    assert {p: e.blob for p, e in jail.snapshot().entries.items()} == START_IDS


def test_closing_the_box_ends_it(real_runtime: Runtime) -> None:
    box = real_runtime.open(START, limits=LIMITS)
    with living(box, BUSY) as live:
        time.sleep(0.2)
        box.close()
        assert live.end().breach == "cancelled"


def test_one_lives_after_another(jail: Sandbox) -> None:
    for _ in range(3):
        with living(jail, ECHO) as live:
            live.ask("open('new', 'a').write('1')")
            assert live.end().exit_code == 0
    assert jail.snapshot().entries["new"].size == 3


def test_closing_the_channel_does_not_disturb(jail: Sandbox) -> None:
    with living(jail, "import os, time; os.close(3); time.sleep(0.3); print('still here')") as live:
        assert live.end().stdout == b"still here\n"
