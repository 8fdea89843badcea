"""Boxes for the contract suites: one box of each kind a module, put back to its start for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from boxes import LIMITS, REAL, START, START_IDS, make, sh

from rover.sandbox.protocol import Runtime, Sandbox


@pytest.fixture(scope="module", params=[*REAL, "local"])
def runtime(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """Every kind of runtime."""
    made = make(request.param)
    yield made
    made.close()


@pytest.fixture(scope="module", params=REAL)
def real_runtime(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """Every kind that confines."""
    made = make(request.param)
    yield made
    made.close()


@pytest.fixture(scope="module")
def _shared(runtime: Runtime) -> Iterator[Sandbox]:
    box = runtime.open(START, limits=LIMITS)
    yield box
    box.close()


@pytest.fixture(scope="module")
def _real_shared(real_runtime: Runtime) -> Iterator[Sandbox]:
    box = real_runtime.open(START, limits=LIMITS)
    yield box
    box.close()


@pytest.fixture
def box(_shared: Sandbox) -> Sandbox:
    """A box of every kind, at its start."""
    _shared.reset(START, limits=LIMITS)
    return _shared


@pytest.fixture
def jail(_real_shared: Sandbox) -> Iterator[Sandbox]:
    """A box at its start. After the attack it still works, resets exactly, and holds no process of the attack."""
    jail = _real_shared
    jail.reset(START, limits=LIMITS)
    yield jail
    jail.reset()
    assert {p: e.blob for p, e in jail.snapshot().entries.items()} == START_IDS
    seen = sh(jail, "ls -A /tmp /dev/shm; ls -d /proc/[0-9]*").stdout.split()
    assert len([s for s in seen if s.startswith(b"/proc/")]) <= 3
    assert {b"/dev/shm:", b"/tmp:"} == {s for s in seen if not s.startswith(b"/proc/")}
    assert sorted(jail.call("os:listdir", "/tmp").value) == []
