"""Attacks on the box. Each must be contained by every runtime that confines: the host is unharmed and unseen, the
supervisor lives, and the next command and the next call find nothing left.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from boxes import LIMITS, SYSCALL, py, refused, seen_processes, sh, shut

from rover.sandbox.protocol import Runtime, Sandbox


# --- network -------------------------------------------------------------------------------------------------
def test_host_tcp(jail: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert "refused" in refused(jail, f"socket.create_connection(('127.0.0.1', {port}), 2)")


def test_host_udp(jail: Sandbox) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        py(jail, f"import socket\nsocket.socket(2, 2).sendto(b'x', ('127.0.0.1', {port}))")
        server.settimeout(0.1)
        with pytest.raises(TimeoutError):
            server.recv(1)


def test_internet(jail: Sandbox) -> None:
    assert "unreachable" in refused(jail, "socket.create_connection(('1.1.1.1', 53), 2)")
    assert "gaierror" in refused(jail, "socket.getaddrinfo('example.com', 80)")


def test_vsock_and_raw_families(jail: Sandbox) -> None:
    for family in ("AF_VSOCK", "AF_NETLINK", "AF_PACKET", "AF_ALG"):
        assert "not supported" in refused(jail, f"socket.socket(socket.{family}, socket.SOCK_RAW)")
    assert "not supported" in refused(jail, "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)")
    assert "not permitted" in refused(jail, "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)")


def test_host_abstract_socket(jail: Sandbox) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0rover-test-{os.getpid()}")
        server.listen()
        assert "refused" in refused(jail, f"socket.socket(socket.AF_UNIX).connect('\\0rover-test-{os.getpid()}')")


def test_host_path_socket(real_runtime: Runtime, jail: Sandbox, open_folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(open_folder / "s"))
        server.listen()
        said = refused(jail, f"socket.socket(socket.AF_UNIX).connect({str(open_folder / 's')!r})")
        assert shut(real_runtime, said)


def test_a_socket_of_the_box_itself(jail: Sandbox) -> None:
    """Processes of a box may talk to each other, by TCP and by a socket in the workspace."""
    script = """
import socket, threading
for family, place in ((socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_INET, ("", 0)), (socket.AF_UNIX, "s")):
    server = socket.socket(family)
    server.bind(place)
    server.listen(1)
    thread = threading.Thread(target=lambda: server.accept()[0].sendall(b"hello"))
    thread.start()
    near = server.getsockname() if family == socket.AF_UNIX else ("127.0.0.1", server.getsockname()[1])
    client = socket.socket(family)
    client.connect(near)
    print(client.recv(9).decode())
    thread.join()
"""
    assert py(jail, script).stdout == b"hello\n" * 3


# --- the host ------------------------------------------------------------------------------------------------
HOST = ["/etc/shadow", "/etc/hostname", "/home", "/var", "/sys", "/boot", "/run", "/.rover/x"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user of the host may read and write."""
    with tempfile.TemporaryDirectory(prefix="rover-open-") as name:
        os.chmod(name, 0o777)
        yield Path(name)


#: what a container has of its own where the host has something else
CONTAINER_OWN = {"/etc/hostname", "/sys", "/.rover/x"}


@pytest.mark.needs("hidden host files")
@pytest.mark.parametrize("path", HOST)
def test_host_files_are_not_there(real_runtime: Runtime, jail: Sandbox, path: str) -> None:
    if real_runtime.kind == "docker" and path in CONTAINER_OWN:
        done = sh(jail, f"cat {path}; ls {path}/; ls {path}/*")
        assert done.stdout == (b"box\n" if path == "/etc/hostname" else b"")
        return
    assert "No such file" in refused(jail, f"os.stat({path!r})")


@pytest.mark.parametrize("path", HOST)
def test_host_files(real_runtime: Runtime, jail: Sandbox, path: str) -> None:
    if real_runtime.kind == "docker" and path in CONTAINER_OWN:
        return  # see above
    assert shut(real_runtime, refused(jail, f"open({path!r})"))
    assert shut(real_runtime, refused(jail, f"os.listdir({path!r})")) or os.path.isfile(path)


def test_host_files_of_this_test(real_runtime: Runtime, jail: Sandbox, open_folder: Path) -> None:
    secret = open_folder / "secret"
    secret.write_text("secret")
    secret.chmod(0o666)
    attacks = ["open({!r})", "open({!r}, 'a')", "os.listdir(os.path.dirname({!r}))", "os.truncate({!r}, 0)"]
    attacks += ["os.remove({!r})", "os.link({!r}, 'here')", "os.rename({!r}, 'here')"]
    for attack in attacks:
        said = refused(jail, attack.format(str(secret)))
        assert shut(real_runtime, said) or "cross-device" in said, attack
    sh(jail, f"ln -s {secret} there")
    assert shut(real_runtime, refused(jail, "open('there')"))
    assert secret.read_text() == "secret"


@pytest.mark.needs("host metadata")
def test_modes_and_times_of_host_files(real_runtime: Runtime, jail: Sandbox, open_folder: Path) -> None:
    """Also where they are the caller's own: links and descriptors do not help."""
    mine = open_folder / "mine"
    mine.write_text("x")
    if os.geteuid() == 0:
        os.chown(mine, 64917, 64917)
    before = mine.stat()
    for attack in (
        "os.chmod({!r}, 0)",
        "os.utime({!r}, (1, 1))",
        "(os.symlink({!r}, 'l'), os.chmod('l', 0))",
        "os.chmod('/proc/self/fd/%d' % os.open({!r}, os.O_PATH), 0)",
        "os.utime(os.open({!r}, os.O_PATH), (1, 1))",
        "os.setxattr({!r}, 'user.x', b'1')",
        "os.chown({!r}, os.getuid(), os.getgid())",
    ):
        said = refused(jail, attack.format(str(mine)))
        assert shut(real_runtime, said) or "not supported" in said or "exists" in said or "descriptor" in said, attack
    after = mine.stat()
    assert (after.st_mode, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_mode,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )


@pytest.mark.needs("fixed paths")
def test_rover_has_no_place_that_commands_see(jail: Sandbox) -> None:
    done = py(jail, "import sys\nprint(__import__('os').listdir('/r'))")
    assert done.stdout == b"[]\n" or b"PermissionError" in done.stderr


def test_rover_is_not_seen_by_commands(jail: Sandbox) -> None:
    assert b"ModuleNotFoundError" in jail.run(["python3", "-c", "import rover"]).stderr


def test_host_environment(jail: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROVER_TEST_SECRET", "hunter2")
    script = "cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'"
    for done in (sh(jail, script), sh(jail, "env")):
        assert b"hunter2" not in done.stdout
        assert b"site-packages" not in done.stdout
    assert "hunter2" not in str(jail.call("os:listdir", "/proc/self/root").value)


def test_host_processes(jail: Sandbox) -> None:
    assert len(seen_processes(jail)) <= 3
    assert "No such process" in refused(jail, f"os.kill({os.getpid() + 100000}, 0)")


def test_limits_and_priorities_of_host_processes(jail: Sandbox) -> None:
    pid = os.getpid()
    for attack in (
        f"import resource; resource.prlimit({pid}, resource.RLIMIT_CPU, (1, 1))",
        f"os.setpriority(os.PRIO_PROCESS, {pid}, 19)",
        f"os.sched_setaffinity({pid}, [0])",
    ):
        said = refused(jail, attack)
        assert "not permitted" in said or "No such process" in said, attack


def test_terminal(real_runtime: Runtime, jail: Sandbox) -> None:
    assert shut(real_runtime, refused(jail, "open('/dev/tty')"))
    said = refused(jail, "import fcntl; fcntl.ioctl(0, 0x5412, b'x')")
    assert "not permitted" in said or "Inappropriate" in said


# --- the supervisor ------------------------------------------------------------------------------------------
def test_signals_to_the_first_process(jail: Sandbox) -> None:
    done = sh(jail, "for s in TERM KILL STOP INT HUP SEGV; do kill -$s 1; done; echo alive")
    assert (done.exit_code, done.stdout) == (0, b"alive\n")


def test_kill_all(jail: Sandbox) -> None:
    assert sh(jail, "kill -9 -1; echo after").stdout == b"after\n", "kill -1 spares its caller and pid 1"


def test_kill_own_group(jail: Sandbox) -> None:
    assert jail.call("os:listdir", "a").value, "start the process that calls are forked from: it must live on"
    assert sh(jail, "kill -9 0").exit_code == 137
    stopped = jail.call("builtins:eval", "__import__('os').kill(0, 19)", limits=LIMITS.model_copy(update={"wall_s": 1}))
    assert stopped.error == "" or stopped.breach == "wall", "the first process of a namespace cannot be stopped"
    assert jail.call("os:listdir", "a").value


def test_ptrace(jail: Sandbox) -> None:
    assert "not permitted" in refused(jail, SYSCALL % "101, 16, 1, 0, 0")
    assert "not permitted" in refused(jail, SYSCALL % "310, 1, 0, 0, 0, 0, 0")


def test_memory_and_descriptors_of_the_first_process(real_runtime: Runtime, jail: Sandbox) -> None:
    for path in ("mem", "environ", "maps", "fd/0", "root", "cwd", "exe"):
        attack = f"open('/proc/1/{path}', 'rb').read(); os.readlink('/proc/1/{path}')"
        said = refused(jail, attack)
        assert "Permission denied" in said or (real_runtime.kind == "landlock" and "No such" in said), path
    assert "not permitted" in refused(jail, SYSCALL % "438, 3, 0, 0")


def test_only_three_descriptors(jail: Sandbox) -> None:
    script = """
import os
def is_open(n):
    try:
        return os.fstat(n)
    except OSError:
        return False
print([n for n in range(256) if is_open(n)])
"""
    assert py(jail, script).stdout == b"[0, 1, 2]\n"


# --- powers --------------------------------------------------------------------------------------------------
def test_no_capabilities(jail: Sandbox) -> None:
    script = """
import ctypes
libc = ctypes.CDLL(None)
held = (ctypes.c_uint * 6)()
libc.capget((ctypes.c_uint * 2)(0x20080522, 0), held)
print(libc.prctl(39, 0, 0, 0, 0), libc.prctl(21, 0, 0, 0, 0), *held)
"""
    assert py(jail, script).stdout.split() == [b"1", b"2", *[b"0"] * 6], "no_new_privs, a filter, no capability"


@pytest.mark.needs("fixed paths")
def test_status_of_a_command(jail: Sandbox) -> None:
    status = sh(jail, "cat /proc/self/status").stdout.decode()
    rows = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {rows[f"Cap{n}"] for n in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (rows["NoNewPrivs"], rows["Seccomp"]) == ("1", "2")
    assert set(rows["Uid"].split()) == {"1000"}


def test_the_host_user_is_not_root(jail: Sandbox) -> None:
    """Which user of the host is behind the one that a command sees, by the map of its namespace."""
    words = sh(jail, "id -u; cat /proc/self/uid_map").stdout.split()
    own, rows = int(words[0]), [tuple(map(int, words[i : i + 3])) for i in range(1, len(words), 3)]
    assert [outside + own - inside for inside, outside, count in rows if inside <= own < inside + count] != [0]


def test_setuid(jail: Sandbox) -> None:
    done = sh(jail, "id -u; cp /usr/bin/id me && chmod 4755 me && ./me -u; su -c id </dev/null; mount /dev/null .")
    first, second = done.stdout.splitlines()
    assert first == second != b"0"
    said = refused(jail, "os.setuid(0)")
    assert "Invalid argument" in said or "not permitted" in said


@pytest.mark.needs("fixed paths")
def test_programs_of_the_system_give_no_rights(real_runtime: Runtime, jail: Sandbox) -> None:
    if real_runtime.kind == "docker":
        assert sh(jail, "grep NoNewPrivs /proc/self/status").stdout.split()[-1] == b"1", "so none of them does"
        return
    assert "Invalid argument" in refused(jail, "os.setuid(0)"), "root is not even mapped"
    assert "nosuid" in sh(jail, "grep ' /usr ' /proc/self/mountinfo").stdout.decode()


def test_mounts_and_namespaces(jail: Sandbox) -> None:
    assert "not permitted" in refused(jail, SYSCALL % "165, b'none', b'/w', b'tmpfs', 0, 0")
    assert "not permitted" in refused(jail, SYSCALL % "166, b'/w', 2")
    for flag in ("0x10000000", "0x00020000", "0x40000000", "0x20000000", "0x00000080"):
        assert "not permitted" in refused(jail, SYSCALL % f"272, {flag}")
    assert "not permitted" in refused(jail, SYSCALL % "56, 0x10000011, 0, 0, 0, 0")
    assert "not implemented" in refused(jail, SYSCALL % "435, 0, 0")
    for number in (155, 161, 428, 429, 430, 442, 308):
        assert "not permitted" in refused(jail, SYSCALL % f"{number}, 0, 0, 0, 0, 0")


def test_kernel_interfaces(jail: Sandbox) -> None:
    for number in (250, 248, 321, 298, 323, 425, 319, 29, 68, 64, 300, 304, 246, 175, 169, 103):
        said = refused(jail, SYSCALL % f"{number}, 0, 0, 0, 0, 0, 0")
        assert "not permitted" in said or "not implemented" in said, number


def test_foreign_abi(jail: Sandbox) -> None:
    assert "not implemented" in refused(jail, SYSCALL % "0x40000000 + 39")


def test_writes_outside_the_workspace(real_runtime: Runtime, jail: Sandbox) -> None:
    folders = ["/usr", "", "/dev", "/v", "/r", "/etc", "/.rover", "/v/lib", "/bin", os.path.realpath(sys.base_prefix)]
    for place in (f"{folder}/x" for folder in folders):
        assert shut(real_runtime, refused(jail, f"open({place!r}, 'w')")), place
    assert shut(real_runtime, refused(jail, "os.chmod('/usr', 0o777)"))
    for place in ("sys/kernel/core_pattern", "sys/kernel/hostname", "sysrq-trigger", "1/oom_score_adj"):
        said = refused(jail, f"open('/proc/{place}', 'w').write('1')")
        assert "denied" in said or "Read-only" in said or "No such" in said, place


@pytest.mark.needs("fixed paths")
def test_list_of_devices(jail: Sandbox) -> None:
    assert sorted(sh(jail, "ls /dev").stdout.decode().split()) == sorted(
        ["fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero"]
    )


def test_devices(jail: Sandbox) -> None:
    assert "not permitted" in refused(jail, "os.mknod('sda', 0o60666, os.makedev(8, 0))")
    assert sh(jail, "echo x > /dev/null; head -c 2 /dev/zero | wc -c; echo y > /dev/stderr").stderr == b"y\n"


# --- endings -------------------------------------------------------------------------------------------------
def test_daemon_dies(jail: Sandbox) -> None:
    sh(jail, "(setsid sh -c 'while :; do date > late; done' >/dev/null 2>&1 &) ; sleep 0.05")
    first = jail.snapshot().entries.get("late")
    time.sleep(0.05)
    assert jail.snapshot().entries.get("late") == first


def test_stopped_and_deaf_processes_are_ended(jail: Sandbox) -> None:
    assert sh(jail, "kill -STOP $$", wall_s=0.2).breach == "wall"
    assert sh(jail, "trap '' TERM INT HUP; while :; do sleep 1; done", wall_s=0.2).breach == "wall"
    assert sh(jail, "exec 0<&- 1>&- 2>&-; sleep 9", wall_s=0.2).breach == "wall"


def test_held_pipes_do_not_hold_the_box(jail: Sandbox) -> None:
    started = time.monotonic()
    assert sh(jail, "setsid sleep 30 & setsid sleep 30 2>/dev/null & exit 4").exit_code == 4
    assert time.monotonic() - started < 2


def test_first_process_cannot_be_outlived(jail: Sandbox) -> None:
    done = py(jail, "import os,time\nfor i in range(20): os.fork() or (os.setsid(), time.sleep(60))\nos._exit(0)")
    assert done.exit_code == 0


# --- the host ends -------------------------------------------------------------------------------------------
CLIENT = """
import sys, threading
from boxes import make
runtime = make(sys.argv[1])
def work():
    box = runtime.open({"a": b"1"})
    print("open", flush=True)
    box.run(["sleep", "60"])
thread = threading.Thread(target=work, daemon=True)
if sys.argv[2] == "thread":
    thread.start(); thread.join()
else:
    work()
"""


ENDS = [(signal.SIGKILL, "main"), (signal.SIGKILL, "thread"), (signal.SIGINT, "main")]


@pytest.mark.parametrize(("how", "where"), ENDS)
def test_nothing_outlives_rover(real_runtime: Runtime, how: signal.Signals, where: str) -> None:
    if real_runtime.kind not in ("bubblewrap", "landlock"):
        pytest.skip("its processes are not children of rover")
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, real_runtime.kind, where],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    assert client.stdout is not None
    with client.stdout:
        assert client.stdout.readline() == "open\n"
    time.sleep(0.2)
    family = descendants(client.pid)
    assert len(family) >= 3, "what starts boxes, the supervisor, sleep"
    client.send_signal(how)
    client.wait()
    end = time.monotonic() + 5
    while any(alive(pid) for pid in family) and time.monotonic() < end:
        time.sleep(0.01)
    assert [pid for pid in family if alive(pid)] == []


def descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
