"""The sandbox without namespaces, beyond the contract: what it leaves, where it lies, what it refuses, its filter."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from boxes import LIMITS, make, py, sh

from rover.sandbox.inside.processes import state
from rover.sandbox.landlock import filter as filters
from rover.sandbox.landlock import folders, processes
from rover.sandbox.landlock.level import UNMET, kept, level, tier
from rover.sandbox.landlock.runtime import LandlockRuntime, sources
from rover.sandbox.landlock.view import Sources, libraries
from rover.sandbox.landlock.workspace import usage
from rover.sandbox.protocol import GUARANTEES, Place, Runtime, Sandbox
from rover_store.errors import SandboxError
from rover_store.records import Limits


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    made = make("landlock")
    yield made
    made.close()


@pytest.fixture
def box(runtime: Runtime) -> Iterator[Sandbox]:
    made = runtime.open({"a": b"1", "data.csv": b"n\n1\n2\n"}, limits=LIMITS)
    yield made
    made.close()


def place(box: Sandbox) -> Path:
    """The box's folder on the host."""
    return Path(sh(box, "pwd").stdout.decode().strip()).parent


# --- what is named -------------------------------------------------------------------------------------------
def test_what_it_cannot_give_has_a_name() -> None:
    assert set(UNMET) <= set(GUARANTEES)
    assert "host metadata" not in UNMET, "the supervisor sets modes and times"
    assert (tier(4), tier(6), tier(7)) == (3, 2, 2)
    own = level()
    ids = {LandlockRuntime(level=number).runtime_id() for number in (2, 3, 4, 5, 6, 7) if number <= own}
    assert len(ids) == len({kept(number) for number in range(2, min(own, 7) + 1)}), (
        "what the supervisor stands in for is another runtime than what the kernel does: a program meets other errors"
    )
    assert kept(6) == kept(7), "what a later level adds is not asked for"


def test_an_old_kernel_is_refused_with_what_to_do() -> None:
    probe = LandlockRuntime(level=1).probe()
    assert not probe.works
    assert "level 1; Linux 5.19 or newer" in probe.reason
    assert "\n" not in probe.reason


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (Place(links=(("/app", ""),)), "cannot have the workspace at /app"),
        (Place(image="x"), "no images"),
        (Place(shows=(("/usr", "/opt/x"),)), "at its own path alone"),
        (Place(shows=(("/nowhere", "/nowhere"),)), "no folder of this machine"),
    ],
)
def test_places_it_cannot_give(runtime: Runtime, asked: Place, said: str) -> None:
    with pytest.raises(SandboxError, match=said):
        runtime.open({}, place=asked)


def test_a_folder_is_shown_at_its_own_path(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> None:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="rover-shown-") as name:
        os.chmod(name, 0o755)
        program = Path(name) / "program"
        program.write_text("#!/bin/sh\necho hello\n")
        program.chmod(0o755)
        box = runtime.open({}, limits=LIMITS, place=Place(shows=((name, name),), env=(("COLOUR", "red"),)))
        assert sh(box, f"{program}; echo $COLOUR").stdout == b"hello\nred\n"
        assert sh(box, f"echo x > {name}/new").exit_code != 0
        assert os.listdir(name) == ["program"]
        box.close()


# --- folders -------------------------------------------------------------------------------------------------
def test_one_box_after_another_lies_at_the_same_place(runtime: Runtime) -> None:
    places, owners = [], []
    for _ in range(2):
        box = runtime.open({}, limits=LIMITS)
        places.append(place(box))
        owners.append(_owner(places[-1]))
        assert oct(places[-1].stat().st_mode & 0o777) == "0o700"
        box.close()
        assert _owner(places[-1]) != owners[-1]
    assert places[0].parent == places[1].parent
    assert all(found.name.isdigit() and int(found.name) < 100 for found in places), "the lowest number that is free"


CLIENT = """
import os, sys
from boxes import make
runtime = make("landlock")
box = runtime.open({"a": b"1"})
print(box.run(["pwd"]).stdout.decode().strip(), flush=True)
box.run(["sh", "-c", "(setsid sleep 60 &); mkdir -p x/y; chmod 000 x; sleep 60"])
"""


def test_nothing_is_left_where_everything_is_killed(runtime: Runtime) -> None:
    """Rover, the keeper and the supervisor at once: the next keeper removes the folder."""
    tests = str(Path(__file__).parent.parent)
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": tests}
    )
    assert client.stdout is not None
    with client.stdout:
        folder = Path(client.stdout.readline().strip()).parent
    time.sleep(0.2)
    family = processes.descendants([client.pid], set())
    owner = _owner(folder)
    assert owner
    for pid in family:
        os.kill(pid, signal.SIGSTOP)
    for pid in family:
        os.kill(pid, signal.SIGKILL)
    client.wait()
    end = time.monotonic() + 10
    while _living(family, client.pid) and time.monotonic() < end:
        time.sleep(0.01)
    assert _owner(folder) == owner, "nobody was left to remove it"
    fresh = LandlockRuntime()
    assert fresh.probe().works
    fresh.close()
    assert _owner(folder) != owner, "another box may lie there by now"


@pytest.mark.parametrize("which", ["keeper", "supervisor"])
def test_a_killed_helper_takes_its_processes_along(which: str) -> None:
    runtime = make("landlock")
    box = runtime.open({}, limits=LIMITS)
    folder = place(box)
    owner = _owner(folder)
    keeper = max(pid for pid in processes.children("self") if b"keeper.py" in _command(pid))
    supervisor = processes.children(keeper)[0]
    import threading

    thread = threading.Thread(target=_attempt, args=(box,))
    thread.start()
    end = time.monotonic() + 10
    while len(family := processes.descendants([keeper], set())) < 4 and time.monotonic() < end:
        time.sleep(0.01)
    os.kill(keeper if which == "keeper" else supervisor, signal.SIGKILL)
    thread.join(10)
    assert not thread.is_alive()
    end = time.monotonic() + 5
    while _living(family, keeper) and time.monotonic() < end:
        time.sleep(0.01)
    assert _living(family, keeper) == []
    while _owner(folder) == owner and time.monotonic() < end:
        time.sleep(0.01)
    assert _owner(folder) != owner
    again = runtime.open({"a": b"1"}, limits=LIMITS)
    assert sh(again, "cat a").stdout == b"1", "the runtime goes on"
    runtime.close()


def _owner(folder: Path) -> str:
    try:
        return (folder / "owner").read_text()
    except OSError:
        return ""


def _living(family: list[int], but: int) -> list[int]:
    return [pid for pid in family if pid != but and state(pid) not in (b"", b"Z")]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _attempt(box: Sandbox) -> None:
    try:
        box.run(["sh", "-c", "(setsid sleep 60 &); sleep 60"], limits=Limits(wall_s=20))
    except SandboxError:
        return


def test_folders_that_cannot_be_walked_are_removed(tmp_path: Path) -> None:
    """Deeper than a path may be long, without rights, with links out."""
    deep = tmp_path / "deep"
    deep.mkdir()
    (tmp_path / "kept").write_text("x")
    here = os.open(deep, os.O_RDONLY)
    for _ in range(600):
        os.mkdir("d" * 200, dir_fd=here)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.symlink(tmp_path / "kept", "link", dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    os.chmod(deep, 0)
    folders.remove(str(deep))
    assert not deep.exists()
    assert (tmp_path / "kept").read_text() == "x"


def test_a_measure_opens_one_folder_of_a_level(tmp_path: Path) -> None:
    """Wider and deeper than there are descriptors."""
    deep = tmp_path / "deep"
    for number in range(300):
        (tmp_path / f"d{number}" / "e").mkdir(parents=True)
    os.chmod(tmp_path / "d7", 0)
    for number in range(200):
        deep = deep / f"{number % 10}"
    deep.mkdir(parents=True)
    (deep / "f").write_bytes(b"x" * 5000)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 40, before[1]))
    try:
        used, count = usage(str(tmp_path), 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert (count, used >= 5000) == (300 * 2 + 201 + 1, True)
    assert usage(str(tmp_path), 10)[1] > 10
    assert (tmp_path / "d7").stat().st_mode & 0o777 == 0


def test_a_place_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "BASES", (str(tmp_path),))
    root = tmp_path / f"rover-{os.geteuid()}"
    root.symlink_to(tmp_path)
    with pytest.raises(OSError, match="no private folder"):
        folders.claim()
    root.unlink()
    root.mkdir(mode=0o777)
    root.chmod(0o777)
    with pytest.raises(OSError, match="no private folder"):
        folders.claim()


# --- what libraries need -------------------------------------------------------------------------------------
def test_libraries_work_in_commands_and_calls(box: Sandbox) -> None:
    """Some read what a control group allows, or end where a file is seen that they may not open."""
    query = "import duckdb; print(duckdb.read_csv('data.csv').sum('n').fetchall()[0][0])"
    done = sh(box, f'cd . && python3 -c "{query}"', wall_s=60, memory_bytes=1 << 30)
    assert (done.stdout, done.stderr) == (b"3\n", b"")
    called = box.call("builtins:exec", query, limits=Limits())
    assert (called.error, called.stdout) == ("", b"3\n")
    assert box.call("mimetypes:guess_type", "a.xlsx").error == ""


def test_a_process_may_read_of_itself_alone(box: Sandbox) -> None:
    script = "cat /proc/self/comm /proc/$$/comm; head -c 3 /proc/self/maps >/dev/null && echo maps; ls /proc/self/fd"
    done = sh(box, script)
    assert done.stdout.split() == [b"cat", b"sh", b"maps", b"0", b"1", b"2", b"3"]
    for path in (f"{os.getpid()}/cmdline", "1/status", "self/mem", "self/mounts", "self/../1/stat", "self/task/1/stat"):
        assert sh(box, f"cat /proc/{path}").exit_code != 0, path


def test_ordinary_work_on_files(box: Sandbox) -> None:
    script = """
set -e
mkdir -p d/e; echo x > d/e/f; chmod 640 d/e/f; touch -d '2001-02-03 04:05:06' d/e/f
tar cf t.tar d; mkdir out; tar xf t.tar -C out; cp -a d copy; mv copy/e/f moved; ln moved hard; ln -s moved soft
stat -c '%a %Y' out/d/e/f moved; cat soft; rm -r out copy t.tar; (umask 077; echo y > private); stat -c %a private
"""
    done = sh(box, script)
    assert done.stderr == b""
    assert done.stdout.split() == [b"640", b"981173106", b"640", b"981173106", b"x", b"600"]


def test_a_hostile_question_does_not_end_the_box(box: Sandbox) -> None:
    script = """
import ctypes
libc = ctypes.CDLL(None)
hostile = [(0,) * 6, (-1,) * 6, (3, 1, 2, 3, 4, 5), (0, -4096, 1 << 40, -1, 7, 7), (-100, b'x' * 5000, -1, -1)]
for number in (90, 91, 132, 235, 261, 268, 280, 452, 42, 49, 50, 2, 257):
    for arguments in hostile:
        libc.syscall(number, *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
print('done')
"""
    assert py(box, script).stdout == b"done\n"
    assert sh(box, "cat a").stdout == b"1"


# --- parts ---------------------------------------------------------------------------------------------------
def test_a_port_of_the_host_is_out_of_reach_where_the_box_listens_at_another_address(box: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as host:
        port = host.getsockname()[1]
        code = f"""
import socket
for family, address in ((socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.2")):
    own = socket.socket(family)
    own.bind((address, {port}))
    own.listen()
    for target in (address, "127.0.0.1", "0.0.0.0"):
        try:
            socket.create_connection((target, {port}))
            print(address, target)
        except ConnectionRefusedError:
            pass
"""
        assert py(box, code).stdout.decode().split("\n") == ["::1 ::1", "127.0.0.2 127.0.0.2", ""]


def test_a_port_is_shared_with_nobody(box: Sandbox) -> None:
    ask = "import socket as s; s.socket().setsockopt(s.SOL_SOCKET, s.SO_REUSE{}, 1)"
    assert b"Protocol not available" in py(box, ask.format("PORT")).stderr
    assert py(box, ask.format("ADDR")).exit_code == 0


def test_sockets_without_end_leave_the_supervisor_its_descriptors(box: Sandbox) -> None:
    code = """
import os, socket
for number in range(5000):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("x")
    os.unlink("x")
"""
    done = py(box, code)
    assert b"No buffer space available" in done.stderr
    assert box.snapshot().entries.keys() >= {"a"}


def test_files_and_folders_that_nobody_may_read_without_end(box: Sandbox) -> None:
    box.reset(limits=LIMITS.model_copy(update={"inodes": 20_000}))
    root = place(box) / "w"
    code = """
import os
for number in range(4200):
    os.close(os.open(f"{number}", os.O_CREAT | os.O_WRONLY, 0))
    os.mkdir(f"d{number}", 0)
os.chmod(".", 0)
"""
    assert py(box, code).exit_code == 0
    assert len(box.snapshot().entries) == 4202
    assert sh(box, "echo goes on").stdout == b"goes on\n"
    assert [os.lstat(root / name).st_mode & 0o777 for name in (".", "7", "d7")] == [0, 0, 0]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("level", [2, 4, 7])
def test_the_filter_jumps_to_its_own_instructions(machine: str, level: int) -> None:
    """Every jump lands inside the program, and every path ends in a return."""
    import struct

    program = filters.build(level, machine)
    code = [struct.unpack("HBBI", program[i : i + 8]) for i in range(0, len(program), 8)]
    assert len(code) < 4096
    for at, (kind, yes, no, _) in enumerate(code):
        if kind & 7 == 5:
            assert at + 1 + max(yes, no) < len(code)
    assert code[-1][0] == 6


def test_a_filter_for_no_such_machine() -> None:
    with pytest.raises(OSError, match="no seccomp filter"):
        filters.build(7, "m68k")


def test_rover_is_granted_to_calls_alone(tmp_path: Path) -> None:
    for name in ("rover", "rover_store", "pandas", "workrover-0.1.0.dist-info", "rover_train", "six.py"):
        (tmp_path / name).mkdir()
    assert libraries(str(tmp_path)) == ["pandas", "six.py"]
    found = sources()
    assert found.moved(found.all()) == found
    moved = Sources("/p/bin/python", ("/p",), ("/s",), "/r", "/t", "/s").moved(["/1", "/2", "/3", "/4"])
    assert (moved.python, moved.sites, moved.rover) == ("/1/bin/python", ("/2",), "/3")
