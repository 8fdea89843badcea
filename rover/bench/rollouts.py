"""What a rollout costs: six turns and a grading in a pooled box, and what a second asking costs.

Processor time is counted on both sides, here and in the box; the plain cost of the shell commands is taken off,
tools and checks are rover's own.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rover.bench.rows import Row, median_row
from rover.policy.scripted import ScriptedPolicy
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files
from rover.rollout.records import RolloutRequest
from rover.sandbox.protocol import Files, Place, Runtime, Sandbox
from rover.sandbox.registry import open_runtime
from rover_store.records import Context, ContextFile, Contract, Criterion, Harness, Limits, Package, Task, Verifier

#: milliseconds of processor time that a six-turn rollout with grading may take of rover's own
BAR_MS = 100.0

_CHECKS = '''\
import rover_checks as rc


def columns(ev):
    return rc.has_columns(rc.table(ev.end("out.csv")), ["k", "n"])


def kept(ev):
    return rc.protected(ev, ["data.csv"])


def clean(ev):
    return rc.no_extra(ev, ["out.csv"])
'''
_DATA = b"n,k\n" + b"".join(b"%d,%d\n" % (i, i % 7) for i in range(500))
_COMMANDS = ("sort data.csv | uniq -c | wc -l", "cut -d, -f2 data.csv | sort | uniq -c | head")
_ROWS = [[k, sum(i for i in range(500) if i % 7 == k)] for k in range(7)]
_TURNS: list[dict[str, Any]] = [
    {"tool": "list_files"},
    {"tool": "read_table", "arguments": {"path": "data.csv", "limit": 500}},
    {"tool": "shell", "arguments": {"command": _COMMANDS[0]}},
    {"tool": "shell", "arguments": {"command": _COMMANDS[1]}},
    {"tool": "write_table", "arguments": {"path": "out.csv", "columns": ["k", "n"], "rows": _ROWS}},
    {"tool": "edit_table", "arguments": {"path": "out.csv", "where": {"k": "3"}, "set": {"n": 1}}},
]


def measure(
    repeats: int = 30, progress: Callable[[int, int], None] | None = None, runtime: Runtime | None = None
) -> list[Row]:
    """Processor and wall time of one rollout with grading, in milliseconds."""
    own = _Counted(runtime or open_runtime())
    env, policy = _env(), ScriptedPolicy.of(list(_TURNS), "Done.")
    walls: list[float] = []
    try:
        with Engine(own) as engine:
            _run(engine, env, policy, 1_000_000)  # the boxes are warm after one
            host, box = _processor(), own.processor_time()
            for seed in range(repeats):
                walls.append(_run(engine, env, policy, seed))
                if progress:
                    progress(seed + 1, repeats)
            host, box = (_processor() - host) / repeats, (own.processor_time() - box) / repeats
            again = [_run(engine, env, policy, seed) for seed in range(repeats)]
    finally:
        if runtime is None:
            own.close()
    plain = _plain(repeats)
    note = f"here {1000 * host:.0f}, in the box {1000 * box:.0f}, commands alone {1000 * plain:.0f}"
    return [
        Row("six turns, own CPU", 1000 * (host + box - plain), "ms", BAR_MS, note=note),
        median_row("six turns, wall", walls, "ms"),
        median_row("from evidence", again, "ms"),
    ]


class _Counted:
    """A runtime that remembers its boxes, for their processor time."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._boxes: list[Sandbox] = []
        self.kind = runtime.kind
        self.probe = runtime.probe
        self.runtime_id = runtime.runtime_id

    def open(self, files: Files, *, limits: Limits | None = None, place: Place | None = None) -> Sandbox:
        self._boxes.append(self._runtime.open(files, limits=limits, place=place))
        return self._boxes[-1]

    def close(self) -> None:
        self._runtime.close()

    def processor_time(self) -> float:
        """Seconds, of all boxes; 0 for a runtime that does not count them."""
        return sum(getattr(box, "processor_time", lambda: 0.0)() for box in self._boxes)


def _run(engine: Engine, env: Env, policy: ScriptedPolicy, seed: int) -> float:
    begin = time.perf_counter()
    ((_, verdict),) = engine.run([RolloutRequest(env, policy, seed)])
    if verdict.outcome != "passed":
        raise AssertionError(f"the benchmark's own rollout did not pass: {verdict.reason}")
    return 1000 * (time.perf_counter() - begin)


def _processor() -> float:
    now = os.times()
    return now.user + now.system


def _plain(repeats: int) -> float:
    """Processor seconds of a rollout's shell commands as plain processes."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "data.csv").write_bytes(_DATA)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for _ in range(repeats):
            for command in _COMMANDS:
                subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / repeats


def _env() -> Env:
    checks = ("columns", "kept", "clean")
    criteria = tuple(Criterion(id=c, requirement=c, check=f"checks/main.py:{c}") for c in checks)
    return env_from_files(
        {
            "package.json": Package(name="bench", title="Bench").dump(),
            "context/context.json": Context(files=(ContextFile(path="data.csv"),)).dump(),
            "context/files/data.csv": _DATA,
            "task/task.json": Task(title="Bench").dump(),
            "task/instruction.md": b"Sum n by k.\n",
            "task/contract.json": Contract().dump(),
            "harness/harness.json": Harness(tools=tuple(dict.fromkeys(t["tool"] for t in _TURNS))).dump(),
            "verifier/verifier.json": Verifier(criteria=criteria).dump(),
            "verifier/checks/main.py": _CHECKS.encode(),
        },
        {},
    )
