"""What a snapshot must see though times say nothing of it, and what a reset must undo: on every runtime that confines.

Each script changes the workspace by an odd way; the snapshot has to agree with what the box itself reads then.
"""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

import pytest
from boxes import LIMITS, START, START_IDS, py

from rover.sandbox.protocol import Completed, Runtime, Sandbox

#: what a mapped write takes; `put` changes one byte and no time
TOOLS = """
import ctypes, mmap, os, socket
def name_it(fd, path):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.linkat(-100, b"/proc/self/fd/%d" % fd, -100, path.encode(), 0x400) < 0:
        raise OSError(ctypes.get_errno(), "linkat")
def mapped(fd, at, byte):
    m = mmap.mmap(fd, 4)
    m[at] = byte
    return m
def put(path, at=0, byte=57):
    fd = os.open(path, os.O_RDWR)
    m = mapped(fd, at, byte)
    os.close(fd)
    return m
"""
SCRIPTS = {
    "mapping that outlives its descriptor": ["m = put('a/b.txt'); m[1] = 56"],
    "mapping again": ["put('a/b.txt')", "put('a/b.txt', 1)", "put('a/b.txt', 2)"],
    "another name": ["os.link('a/b.txt', 'hard')", "put('hard')", "put('a/b.txt', 1)"],
    "a name that is gone": ["os.link('a/b.txt', 'hard')", "m = put('hard'); os.unlink('hard')"],
    "a name made and gone": ["os.link('a/b.txt', 'h'); m = put('h', 2); os.unlink('h')"],
    "a removed name": ["os.link('a/b.txt', 'k'); fd = os.open('a/b.txt', 2); os.unlink('a/b.txt'); mapped(fd, 0, 57)"],
    "a file without a name": [
        "fd = os.open('.', os.O_TMPFILE | os.O_RDWR); os.write(fd, b'fresh')\n"
        "name_it(fd, 'named'); mapped(fd, 0, 57)",
        "put('named', 1)",
    ],
    "a renamed folder": ["os.rename('a', 'e')", "put('e/b.txt')", "put('e/b.txt', 1); os.rename('e', 'a')"],
    "renamed while open": ["fd = os.open('a/b.txt', 2); os.rename('a', 'e'); mapped(fd, 0, 57); os.rename('e', 'a')"],
    "swapped folders": [
        "os.mkdir('s'); open('s/b.txt', 'w').write('hello')",
        "put('s/b.txt'); os.rename('a', 't'); os.rename('s', 'a'); os.rename('t', 's')",
    ],
    "a descriptor passed on": [
        "near, far = socket.socketpair(); fd = os.open('a/b.txt', 2)\n"
        "if os.fork() == 0:\n got = socket.recv_fds(far, 1, 1)[1][0]; mapped(got, 0, 57); os._exit(0)\n"
        "socket.send_fds(near, [b'x'], [fd]); os.close(fd); os.wait()"
    ],
    "a descriptor that stays on its way": [
        "near, far = socket.socketpair(); fd = os.open('a/b.txt', 2); mapped(fd, 0, 57)\n"
        "socket.send_fds(near, [b'x'], [fd, near.fileno(), far.fileno()]); os._exit(0)"
    ],
    "opened again through /proc": ["fd = os.open('a/b.txt', 0); put(f'/proc/self/fd/{fd}')"],
    "opened for itself by number": ["d = os.open('a', os.O_PATH); put(f'/proc/self/fd/{d}/b.txt')"],
    "a deep new folder": ["os.makedirs('n/m'); open('n/m/f', 'w').write('12345')", "put('n/m/f')", "put('n/m/f', 1)"],
    "a closed mode": ["put('a/b.txt'); os.chmod('a/b.txt', 0); os.chmod('a', 0)"],
    "times put back": [
        "s = os.stat('a/b.txt'); open('a/b.txt', 'w').write('HELLO\\n'); os.utime('a/b.txt', ns=(0, s.st_mtime_ns))"
    ],
    "cut and grown": ["s = os.path.getsize('a/b.txt'); os.truncate('a/b.txt', 0); os.truncate('a/b.txt', s)"],
    "a hole": ["ctypes.CDLL(None).fallocate(os.open('a/b.txt', 2), 3, ctypes.c_long(0), ctypes.c_long(2))"],
    "copied in the kernel": ["os.copy_file_range(os.open('same1', 0), os.open('a/b.txt', 2), 1)"],
    "sent in the kernel": ["os.sendfile(os.open('a/b.txt', 2), os.open('same1', 0), 0, 1)"],
    "too much to be told": [
        "for i in range(8500):\n open('same1', 'a').close(); open('same2', 'a').close()\nput('a/b.txt')"
    ],
    "left to a daemon": [
        "m = put('a/b.txt'); r, w = os.pipe()\nif os.fork() == 0:\n os.setsid(); m[1] = 56; os.close(w)\n"
        " import time; time.sleep(60)\nos.close(w); os.read(r, 1)"
    ],
    "another file of the same name": [
        "b = open('a/b.txt').read(); os.unlink('a/b.txt'); open('a/b.txt', 'w').write(b[::-1])"
    ],
}
#: blob id of each file as the box reads it
TRUTH = """
import hashlib, json, os
found = {}
for folder, _, names in os.walk("."):
    for name in names:
        data = open(path := os.path.join(folder, name), "rb").read()
        found[path[2:]] = hashlib.sha1(b"blob %d\\0" % len(data) + data).hexdigest()
print(json.dumps(found))
"""
#: all that a command can see of a workspace
FACES = """
import json, os
def face(path):
    s = os.lstat(path)
    marks = sorted(os.listxattr(path, follow_symlinks=False))
    entries = sorted(os.listdir(path)) if os.path.isdir(path) else open(path).read()
    links = s.st_nlink if not os.path.isdir(path) else 0
    return [oct(s.st_mode), s.st_uid, s.st_gid, s.st_mtime_ns, s.st_size, links, marks, entries]
print(json.dumps({path: face(path) for path in [".", "a", "a/c", "a/b.txt", "a/c/d.csv", "same1", "same2", "z z"]}))
"""
METADATA = [
    "os.chmod('a/b.txt', 0o600); os.chmod('a/c', 0o777); os.chmod('.', 0o711)",
    "os.utime('a/b.txt', (1, 1)); os.utime('a', (1, 1)); os.utime('.', (1, 1))",
    "[os.setxattr(p, 'user.x', b'1') for p in ('a/b.txt', 'a', '.')]",
    "os.rename('a/b.txt', 'x'); os.rename('x', 'a/b.txt')",
    "os.rename('same1', 'x'); os.rename('same2', 'same1'); os.rename('x', 'same2')",
    "os.mkdir('a/e'); os.rmdir('a/e'); os.link('same1', 'y'); os.unlink('y')",
]


def possible(done: Completed) -> None:
    """A file system may refuse some of this; then there is nothing to see."""
    if b"Errno 18" in done.stderr or b"Errno 95" in done.stderr:
        pytest.skip(done.stderr.decode().splitlines()[-1])
    assert done.exit_code == 0, done.stderr.decode()


def read(box: Sandbox) -> dict[str, str]:
    return {path: entry.blob for path, entry in box.snapshot().entries.items()}


@pytest.mark.parametrize("name", list(SCRIPTS))
def test_a_snapshot_sees_it_and_a_reset_undoes_it(jail: Sandbox, name: str) -> None:
    for script in SCRIPTS[name]:
        done = py(jail, TOOLS + script)
        possible(done)
        seen = read(jail)
        if name != "a closed mode":
            assert seen == json.loads(py(jail, TRUTH).stdout)
    assert seen != START_IDS
    jail.reset()
    assert read(jail) == START_IDS == json.loads(py(jail, TRUTH).stdout)
    for script in SCRIPTS[name]:
        assert py(jail, TOOLS + script).exit_code == 0
    jail.reset()  # without a snapshot before
    assert json.loads(py(jail, TRUTH).stdout) == START_IDS


@pytest.mark.parametrize("script", METADATA)
def test_a_reset_leaves_no_trace(jail: Sandbox, script: str) -> None:
    before = py(jail, FACES).stdout
    assert json.loads(before)["a/b.txt"][-1] == "hello\n"
    done = py(jail, f"import os\n{script}")
    if done.exit_code:
        pytest.skip(f"cannot be done here: {done.stderr.decode().splitlines()[-1]}")
    jail.reset()
    assert py(jail, FACES).stdout == before


#: keeps a file open and mapped between the lines that it is sent
LIVING = TOOLS + """
channel = socket.socket(fileno=3)
for line in channel.makefile("r"):
    try:
        exec(line)
        channel.sendall(b"done")
    except OSError as error:
        channel.sendall(str(error).encode())
"""
STEPS = {
    "a mapping": ["m = put('a/b.txt')", "m[1] = 50", "m[2] = 51", "m.close()"],
    "an old descriptor": ["fd = os.open('a/b.txt', 2)", "0", "mapped(fd, 1, 50)", "os.close(fd)", "put('a/b.txt', 3)"],
    "a name that is gone": [
        "os.link('a/b.txt', 'k'); m = put('a/b.txt'); os.unlink('a/b.txt')",
        "m[1] = 50",
        "m[2] = 51",
    ],
    "a file without a name": [
        "fd = os.open('.', os.O_TMPFILE | os.O_RDWR); os.write(fd, b'fresh')",
        "name_it(fd, 'named')",
        "m = mapped(fd, 0, 57)",
        "m[1] = 50",
    ],
    "a renamed folder": ["m = put('a/b.txt'); os.rename('a', 'e')", "m[1] = 50", "os.rename('e', 'a'); m[2] = 51"],
    "a new folder": ["os.mkdir('n'); open('n/f', 'w').write('12345'); m = put('n/f')", "m[1] = 50", "m[2] = 51"],
}


@pytest.mark.parametrize("name", list(STEPS))
def test_a_snapshot_beside_a_living_command_sees_it(jail: Sandbox, name: str) -> None:
    near, far = socket.socketpair()
    near.settimeout(20)
    done: list[Any] = []
    argv = ["python3", "-S", "-c", LIVING]
    thread = threading.Thread(target=lambda: done.append(jail.run(argv, limits=LIMITS, channel=far)))
    thread.start()
    for step in STEPS[name]:
        near.sendall(step.encode() + b"\n")
        if b"Errno 18" in (said := near.recv(1000)):
            break  # a file system may refuse that
        assert said == b"done"
        assert read(jail) == json.loads(py(jail, TRUTH).stdout), step
    near.close()
    thread.join(20)
    far.close()
    assert done[0].exit_code == 0, done[0].stderr
    assert read(jail) == json.loads(py(jail, TRUTH).stdout)


#: does some of all that at random
WORK = TOOLS + """
import random, sys
rng = random.Random(int(sys.argv[1]))
for _ in range(rng.randrange(1, 8)):
    folders = sorted(folder for folder, _, _ in os.walk("."))
    files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(".") for name in names)
    path, other = rng.choice(files or ["none"]), os.path.join(rng.choice(folders), f"n{rng.randrange(4)}")
    what = rng.randrange(10)
    try:
        if what == 0: open(other, "w").write("x" * rng.randrange(9))
        elif what == 1: os.unlink(path)
        elif what == 2: os.rename(path, other)
        elif what == 3: os.link(path, other)
        elif what == 4: os.makedirs(other)
        elif what == 5: os.rename(rng.choice(folders), other)
        elif what == 6: os.truncate(path, rng.randrange(6))
        elif what == 7: times = os.stat(path).st_mtime_ns; open(path, "a").write("a"); os.utime(path, ns=(0, times))
        else: put(path, 0, rng.randrange(48, 58))
    except (OSError, ValueError):
        pass
"""


@pytest.mark.parametrize("seed", range(6))
def test_random_work_is_seen(jail: Sandbox, seed: int) -> None:
    for step in range(4):
        done = jail.run(["python3", "-S", "-c", WORK, str(10 * seed + step)], limits=LIMITS)
        assert done.exit_code == 0, done.stderr
        if step != 1:  # two commands between snapshots
            assert read(jail) == json.loads(py(jail, TRUTH).stdout)


def test_a_reset_after_many_kinds_of_work(real_runtime: Runtime) -> None:
    """One box, used again and again for other start states, holds each of them exactly."""
    box = real_runtime.open(START, limits=LIMITS)
    other = {"a/b.txt": b"other\n", "a/x/y": b"deep", "b": b"1", "z z": b""}
    for number in range(4):
        py(box, TOOLS + "[put(p) for p in ('a/b.txt',)]; os.mkdir('junk'); open('junk/f', 'w').write('x' * 100)")
        start = other if number % 2 == 0 else START
        box.reset(start, limits=LIMITS)
        found = json.loads(py(box, TRUTH).stdout)
        assert found == read(box)
        assert sorted(found) == sorted(start)
    box.close()
