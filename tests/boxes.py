"""Runtimes and start states that the contract suites of the sandbox share."""

from __future__ import annotations

import os

import pytest

from rover.sandbox.bubblewrap import BubblewrapRuntime
from rover.sandbox.protocol import Runtime
from rover.sandbox.registry import make_runtime
from rover_store.records import Limits

#: Kinds that confine: both ways to lay out a workspace, and one more kind where ROVER_CONTRACT_SANDBOX names it.
REAL = ["bubblewrap", "bubblewrap-copy", *os.environ.get("ROVER_CONTRACT_SANDBOX", "").split()]
START = {"a/b.txt": b"hello\n", "a/c/d.csv": b"x,y\n1,2\n", "same1": b"1", "same2": b"1", "z z": b""}
LIMITS = Limits(wall_s=10, cpu_s=5, memory_bytes=256 << 20, disk_bytes=16 << 20, inodes=500, file_bytes=8 << 20)


def make(kind: str) -> Runtime:
    """A runtime of this kind; the test is skipped where the machine cannot run it, unless it must."""
    runtime = BubblewrapRuntime(workspace="copy") if kind == "bubblewrap-copy" else make_runtime(kind)
    probe = runtime.probe()
    if not probe.works:
        if os.environ.get("ROVER_REQUIRE_SANDBOX"):
            pytest.fail(f"{kind}: {probe.reason}")
        pytest.skip(f"{kind}: {probe.reason}")
    return runtime
