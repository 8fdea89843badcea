"""Runtimes, start states and ways to run things that the contract suites of the sandbox share."""

from __future__ import annotations

import os

import pytest

from rover.sandbox.bubblewrap import BubblewrapRuntime
from rover.sandbox.landlock.runtime import LandlockRuntime
from rover.sandbox.protocol import Completed, Runtime, Sandbox, lacking
from rover.sandbox.registry import make_runtime
from rover_store.ids import blob_id
from rover_store.records import Limits

#: Kinds that confine: both ways to lay out a workspace, two levels of Landlock, containers, and more where
#: ROVER_CONTRACT_SANDBOX names them.
MORE = os.environ.get("ROVER_CONTRACT_SANDBOX", "").split()
REAL = ["bubblewrap", "bubblewrap-copy", "landlock", "landlock-4", "docker", *MORE]
START = {"a/b.txt": b"hello\n", "a/c/d.csv": b"x,y\n1,2\n", "same1": b"1", "same2": b"1", "z z": b""}
START_IDS = {path: blob_id(data) for path, data in START.items()}
LIMITS = Limits(wall_s=10, cpu_s=5, memory_bytes=256 << 20, disk_bytes=16 << 20, inodes=500, file_bytes=8 << 20)

#: a system call by number, in a Python attack
SYSCALL = (
    "libc = ctypes.CDLL(None, use_errno=True); r = libc.syscall(%s); "
    "assert r >= 0, os.strerror(ctypes.get_errno())"
)


def make(kind: str) -> Runtime:
    """A runtime of this kind; the test is skipped where the machine cannot run it, unless it must."""
    runtime: Runtime
    if kind == "bubblewrap-copy":
        runtime = BubblewrapRuntime(workspace="copy")
    elif kind == "landlock-4":
        runtime = LandlockRuntime(level=4)
    else:
        runtime = make_runtime(kind)
    if reason := _why_not(kind, runtime):
        if os.environ.get("ROVER_REQUIRE_DOCKER" if kind == "docker" else "ROVER_REQUIRE_SANDBOX"):
            pytest.fail(f"{kind}: {reason}")
        pytest.skip(f"{kind}: {reason}")
    return runtime


_PROBED: dict[str, str] = {}


def _why_not(kind: str, runtime: Runtime) -> str:
    """Why a kind cannot run here, probed once a process; empty where it can."""
    if kind not in _PROBED:
        probe = runtime.probe()
        _PROBED[kind] = "" if probe.works else probe.reason or "no reason given"
    return _PROBED[kind]


def temporary(runtime: Runtime) -> tuple[str, ...]:
    """Folders for what is temporary in a box of this runtime, as a shell names them."""
    return ("\"$TMPDIR\"",) if lacking(("fixed paths",), runtime) else ("/tmp", "/dev/shm")


def shut(runtime: Runtime, said: str) -> bool:
    """Whether an attack on a file of the host came to nothing: the file is not there; where a runtime cannot hide that
    it is, or a container has something of its own in that place, it may not be opened."""
    unseen = not lacking(("hidden host files",), runtime) and runtime.kind != "docker"
    words = ("No such", "Read-only") if unseen else ("No such", "Read-only", "Permission denied", "not permitted")
    return any(word in said for word in words)


def sh(box: Sandbox, script: str, **limits: float) -> Completed:
    return box.run(["sh", "-c", script], limits=LIMITS.model_copy(update=limits))


def py(box: Sandbox, script: str, **limits: float) -> Completed:
    """Run Python in the box, without site-packages: it starts faster."""
    return box.run(["python3", "-S", "-c", script], limits=LIMITS.model_copy(update=limits))


def refused(box: Sandbox, script: str) -> str:
    """Run a Python attack that must raise; gives the exception in one line."""
    done = py(box, f"import os, ctypes, socket\ntry:\n {script}\nexcept Exception as e:\n print(type(e).__name__, e)")
    assert done.exit_code == 0, done
    said = done.stdout.decode().strip()
    assert said, f"the attack went through: {script}"
    return said


def seen_processes(box: Sandbox) -> list[bytes]:
    """The processes that a command of a box sees, its own among them; without those of a container's own user, which
    it can do nothing to."""
    return sh(box, "find /proc -maxdepth 1 -name '[0-9]*' ! -user 0").stdout.split()
