"""Boxes for the contract suites: one box of each kind a module, put back to its start for every test."""

from __future__ import annotations

from collections.abc import Iterator

import agent_programs
import pytest
from boxes import LIMITS, REAL, START, START_IDS, make, seen_processes, sh, temporary

from rover.sandbox.protocol import Runtime, Sandbox, lacking


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*names): guarantees and features without which a test has no meaning")


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


@pytest.fixture(autouse=True)
def _needed(request: pytest.FixtureRequest) -> None:
    """`needs(...)` on a test: where the runtime names one of these as unmet, the test is refused by that name."""
    marker = request.node.get_closest_marker("needs")
    if marker is not None:
        named = {"real_runtime", "jail"} & set(request.fixturenames)
        runtime = request.getfixturevalue("real_runtime" if named else "runtime")
        if missing := lacking(marker.args, runtime):
            pytest.skip(f"refused: {runtime.kind} does not give {', '.join(missing)}")


@pytest.fixture
def jail(real_runtime: Runtime, _real_shared: Sandbox) -> Iterator[Sandbox]:
    """A box at its start. After the attack it still works, resets exactly, and holds no process of the attack."""
    jail = _real_shared
    jail.reset(START, limits=LIMITS)
    yield jail
    jail.reset()
    assert {p: e.blob for p, e in jail.snapshot().entries.items()} == START_IDS
    assert len(seen_processes(jail)) <= 3
    for folder in temporary(real_runtime):
        assert sh(jail, f"ls -A {folder}").stdout == b""
    assert jail.call("builtins:eval", "__import__('os').listdir(__import__('tempfile').gettempdir())").value == []


@pytest.fixture(scope="module", params=[kind for kind in REAL if kind not in ("bubblewrap-copy", "landlock-4")])
def agent_runtime(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """Each kind that confines once, for agent programs."""
    made = make(request.param)
    yield made
    made.close()


@pytest.fixture(scope="module")
def plain(agent_runtime: Runtime) -> Iterator[Sandbox]:
    """A box that shows nothing more."""
    box = agent_runtime.open(agent_programs.START)
    yield box
    box.close()


@pytest.fixture
def quiet(agent_runtime: Runtime, plain: Sandbox) -> Iterator[Sandbox]:
    """The same; afterwards nothing of an agent is left in it, and it works."""
    yield plain
    plain.reset(agent_programs.START)
    seen = plain.run(["sh", "-c", "ls -d /proc/[0-9]* | wc -l; ls -A ${TMPDIR:-/tmp}"]).stdout.split()
    assert len(seen) == 1, seen
    assert int(seen[0]) <= 4 or "private processes" in getattr(agent_runtime, "unmet", ())
    assert sorted(plain.snapshot().entries) == sorted(agent_programs.START)
