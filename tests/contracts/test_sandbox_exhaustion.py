"""Attacks by use: processes, time, memory, disk and output. Each ends at its limit, and the box goes on."""

from __future__ import annotations

import signal
import time

from boxes import LIMITS, START, py, refused, sh

from rover.sandbox.protocol import Sandbox


# --- processes, time, memory ---------------------------------------------------------------------------------
def test_fork_bomb(jail: Sandbox) -> None:
    started = time.monotonic()
    done = sh(jail, "b() { b | b & }; b; sleep 20", wall_s=1)
    assert done.breach in ("wall", "output", None)
    assert time.monotonic() - started < 8


def test_processes_are_counted(jail: Sandbox) -> None:
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
    assert 50 < int(done.stdout) <= 64


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
def test_disk_by_files(jail: Sandbox) -> None:
    done = sh(jail, "for i in 1 2 3 4 5 6; do head -c 4000000 /dev/zero > f$i || exit 9; done")
    assert done.exit_code == 9
    assert b"No space" in done.stderr
    assert sum(e.size for e in jail.snapshot().entries.values()) <= LIMITS.disk_bytes


def test_disk_by_deleted_files(jail: Sandbox) -> None:
    script = """
import os
held = []
for i in range(9):
    held.append(open('f', 'wb', 0))
    os.unlink('f')
    held[-1].write(b'x' * (4 << 20))
    held[-1].write(b'x')
"""
    assert b"No space" in py(jail, script).stderr


def test_disk_by_inodes(jail: Sandbox) -> None:
    assert "No space" in refused(jail, "[open(f'n{i}', 'w').close() for i in range(2000)]")
    assert "No space" in refused(jail, "[os.mkdir(f'm{i}') for i in range(2000)]")


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
