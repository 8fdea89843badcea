"""Attacks by use: processes, time, memory, disk and output. Each ends at its limit, and the box goes on."""

from __future__ import annotations

import signal
import time

import pytest
from boxes import LIMITS, START, py, refused, sh, temporary

from rover.sandbox.protocol import Runtime, Sandbox, lacking


# --- processes, time, memory ---------------------------------------------------------------------------------
def test_fork_bomb(jail: Sandbox) -> None:
    started = time.monotonic()
    done = sh(jail, "b() { b | b & }; b; sleep 20", wall_s=1)
    assert done.breach in ("wall", "output", None)
    assert time.monotonic() - started < 8


def test_processes_are_counted(real_runtime: Runtime, jail: Sandbox) -> None:
    done = py(
        jail,
        """
import os, time
n = 0
try:
    while True:
        os.fork() or time.sleep(9)
        n += 1
except OSError:
    print(n)
""",
    )
    # without namespaces the kernel counts all processes of the user, which come and go
    assert 50 < int(done.stdout) <= (64 if real_runtime.kind != "landlock" else 200)


def test_cpu_of_many(jail: Sandbox) -> None:
    done = sh(jail, "for i in 1 2 3; do while :; do :; done & done; wait", cpu_s=0.4, wall_s=8)
    assert done.breach == "cpu"
    assert done.cpu_s > 0.3


def test_memory_of_one(jail: Sandbox) -> None:
    done = py(jail, "b = bytearray(2 << 30)\nimport time; time.sleep(5)")
    assert done.breach == "memory" or done.exit_code != 0


def test_memory_of_many(jail: Sandbox) -> None:
    script = """
import os, time
for i in range(8):
    if os.fork() == 0:
        b = b'x' * (60 << 20)
        time.sleep(9)
time.sleep(9)
"""
    assert py(jail, script).breach == "memory"


def test_memory_shared(jail: Sandbox) -> None:
    script = "import mmap,time\nm = mmap.mmap(-1, 400 << 20)\nfor i in range(0, len(m), 4096): m[i] = 1\ntime.sleep(9)"
    assert py(jail, script).breach == "memory"


def test_memory_of_a_process_that_cannot_be_looked_at(jail: Sandbox) -> None:
    script = "import ctypes,time\nctypes.CDLL(None).prctl(4, 0)\nb = b'x' * (400 << 20)\ntime.sleep(9)"
    assert py(jail, script).breach == "memory"


def test_forked_memory_is_not_counted_twice(jail: Sandbox) -> None:
    script = """
import os, time
b = b'x' * (100 << 20)
for i in range(5):
    os.fork() or (time.sleep(.3), os._exit(0))
time.sleep(.4)
print('ok')
"""
    assert py(jail, script).stdout == b"ok\n"


@pytest.mark.needs("fixed paths", "disk limit")
def test_memory_in_files_is_bounded(jail: Sandbox) -> None:
    for folder, most in (("/tmp", 16), ("/dev/shm", 64)):
        script = f"""
n = 0
try:
    for i in range(99):
        open('{folder}/%d' % i, 'wb').write(b'x' * (4 << 20))
        n += 4
except OSError:
    print(n)
"""
        assert int(py(jail, script).stdout) <= most


# --- disk ----------------------------------------------------------------------------------------------------
def test_disk_by_files(real_runtime: Runtime, jail: Sandbox) -> None:
    """Refused by the kernel; where a runtime only measures, the command is ended, or has ended in breach."""
    done = sh(jail, "for i in 1 2 3 4 5 6; do head -c 4000000 /dev/zero > f$i || exit 9; done")
    if lacking(("disk limit",), real_runtime):
        assert (done.exit_code, done.breach) == (None, "disk")
    else:
        assert done.exit_code == 9
        assert b"No space" in done.stderr
    assert sum(e.size for e in jail.snapshot().entries.values()) <= LIMITS.disk_bytes


def test_disk_in_temporary_files(real_runtime: Runtime, jail: Sandbox) -> None:
    for folder in temporary(real_runtime):
        fill = f"head -c 8000000 /dev/zero > {folder}/f$i || exit 9"
        done = sh(jail, f"for i in 1 2 3 4 5 6 7 8 9; do {fill}; done; sleep 1")
        assert done.exit_code == 9 or done.breach in ("disk", "memory")


def test_disk_by_deleted_files(real_runtime: Runtime, jail: Sandbox) -> None:
    script = """
import os
held = []
for i in range(9):
    held.append(open('f', 'wb', 0))
    os.unlink('f')
    held[-1].write(b'x' * (4 << 20))
    held[-1].write(b'x')
import time
time.sleep(2)
"""
    done = py(jail, script)
    assert done.breach == "disk" if lacking(("disk limit",), real_runtime) else b"No space" in done.stderr


def test_disk_by_inodes(real_runtime: Runtime, jail: Sandbox) -> None:
    for attack in ("[open(f'n{i}', 'w').close() for i in range(2000)]", "[os.mkdir(f'm{i}') for i in range(2000)]"):
        if lacking(("disk limit",), real_runtime):
            assert py(jail, f"import os\n{attack}").breach == "disk"
        else:
            assert "No space" in refused(jail, attack)


def test_disk_by_attributes(jail: Sandbox) -> None:
    said = refused(jail, "[os.setxattr('same1', f'user.a{i}', b'x' * 60000) for i in range(2000)]")
    assert "No space" in said or "not supported" in said


def test_sparse_file(jail: Sandbox) -> None:
    assert "File too large" in refused(jail, "os.truncate(os.open('s', 66), 1 << 40)")
    assert sh(jail, "truncate -s 1T s").exit_code == 128 + signal.SIGXFSZ
    assert sh(jail, "for i in 1 2 3 4 5 6 7 8; do truncate -s 8M s$i; done").exit_code == 0
    found = jail.snapshot()
    assert sum(e.size for p, e in found.entries.items() if p not in START) <= LIMITS.disk_bytes
    assert "over the limit" in found.refused["s8"]


def test_a_gigabyte_of_output(jail: Sandbox) -> None:
    started = time.monotonic()
    done = sh(jail, "head -c 1000000000 /dev/zero")
    assert (done.breach, len(done.stdout)) == ("output", LIMITS.output_bytes)
    assert time.monotonic() - started < 3
