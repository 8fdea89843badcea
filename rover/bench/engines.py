"""What a sandbox of a named kind costs: its commands, in a container against `docker exec` in the same one, taken in
turns; a rollout; starts and ends of boxes; snapshots and resets by the number of files.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable

from rover.bench import rollouts
from rover.bench.rows import Row, median_row
from rover.sandbox.docker.box import DockerSandbox
from rover.sandbox.protocol import Files, Runtime, Sandbox
from rover.sandbox.registry import open_runtime
from rover_store.records import Limits

#: a command in a living container over `docker exec` of the same one, at the median
EXEC_BAR = 1.3
#: milliseconds of processor time of a six-turn rollout with grading beyond its commands
ROLLOUT_BAR_MS = 300.0
SIZES = (10, 1000, 20_000)
LIMITS = Limits(inodes=100_000)
EVERYWHERE = ["true"]

Tick = Callable[[int, int], None]


def measure(kind: str = "docker", repeats: int = 30, progress: Tick | None = None) -> list[Row]:
    """Milliseconds of the wall clock, but where a row says otherwise."""
    runtime = open_runtime(kind)
    try:
        with contextlib.closing(runtime.open({"a": b"1"})) as box:
            rows = _commands(box, repeats, progress)
        rows += _life(runtime, max(3, repeats // 6))
        for size in SIZES:
            rows += _workspace(runtime, size, max(3, repeats // 6))
        own, *rest = rollouts.measure(max(3, repeats // 3), progress, runtime)
        return [*rows, Row(own.name, own.value, own.unit, ROLLOUT_BAR_MS, note=own.note), *rest]
    finally:
        runtime.close()


def _commands(box: Sandbox, repeats: int, progress: Tick | None) -> list[Row]:
    """The same command in the living box and by the engine's own way, one after the other."""
    inside, beside = [], []
    box.run(EVERYWHERE)
    for number in range(repeats):
        inside.append(_timed(lambda: box.run(EVERYWHERE)))
        if isinstance(box, DockerSandbox):
            beside.append(_timed(lambda: box.execute(EVERYWHERE)))
        if progress:
            progress(number + 1, repeats)
    rows = [median_row("command", inside, "ms")]
    if beside:
        rows.append(median_row("docker exec", beside, "ms"))
        ratio = statistics.median(inside) / statistics.median(beside)
        rows.append(Row("command / docker exec", ratio, "ratio", EXEC_BAR))
    return rows


def _life(runtime: Runtime, repeats: int) -> list[Row]:
    starts, ends = [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        box = runtime.open({"a": b"1"})
        starts.append(1000 * (time.perf_counter() - begin))
        ends.append(_timed(box.close))
    return [median_row("start of a box", starts, "ms"), median_row("end of a box", ends, "ms")]


def _workspace(runtime: Runtime, size: int, repeats: int) -> list[Row]:
    """Snapshots and resets where a command changed one file of so many."""
    files: Files = {f"d{n % 50}/f{n}": b"%d" % n for n in range(size)}
    begin = time.perf_counter()
    with contextlib.closing(runtime.open(files, limits=LIMITS)) as box:
        laid = 1000 * (time.perf_counter() - begin)
        snapshots, resets = [], []
        for number in range(repeats):
            done = box.run(["sh", "-c", f"echo {number} > d7/f7"])
            if done.exit_code:
                raise AssertionError(f"the benchmark's own command failed: {done.stderr!r}")
            snapshots.append(_timed(box.snapshot))
            resets.append(_timed(box.reset))
    return [
        Row(f"start, {size} files", laid, "ms"),
        median_row(f"snapshot, {size} files", snapshots, "ms"),
        median_row(f"reset, {size} files", resets, "ms"),
    ]


def _timed(act: Callable[[], object]) -> float:
    begin = time.perf_counter()
    act()
    return 1000 * (time.perf_counter() - begin)
