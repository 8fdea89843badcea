"""What a living sandbox costs: a command in it against the same command as a plain process, taken in turns;
calls, snapshots and resets; starting and ending a box.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rover.bench.rows import Row, median_row
from rover.sandbox.box import BubblewrapSandbox
from rover.sandbox.layout import ENVIRONMENT
from rover.sandbox.protocol import Runtime, Sandbox
from rover.sandbox.registry import open_runtime

#: milliseconds that a command in a living sandbox may take over the command itself, at the median
BAR_MS = 10.0
JOB = "import csv; print(sum(int(r['n']) for r in csv.DictReader(open('data.csv'))))"
COMMANDS = {
    "true": ["true"],
    "shell": ["sh", "-c", "sort data.csv | uniq -c | wc -l > out"],
    "csv job": ["python3", "-S", "-c", JOB],
}


def measure(
    repeats: int = 40, progress: Callable[[int, int], None] | None = None, runtime: Runtime | None = None
) -> list[Row]:
    """Overheads and latencies in milliseconds, wall clock, and the processor time of rover's own part."""
    own = runtime or open_runtime()
    try:
        files = {"data.csv": b"n,k\n" + b"".join(b"%d,%d\n" % (i, i % 7) for i in range(500))}
        with contextlib.closing(own.open(files)) as box, tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "data.csv").write_bytes(files["data.csv"])
            rows = _commands(box, folder, repeats, progress)
            rows += _requests(box, repeats)
        return rows + _life(own, max(5, repeats // 4))
    finally:
        if runtime is None:
            own.close()


def _commands(
    box: Sandbox, folder: str, repeats: int, progress: Callable[[int, int], None] | None
) -> list[Row]:
    rows = []
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for done in range(repeats):
        for name, argv in COMMANDS.items():
            inside = _timed(lambda argv=argv: box.run(argv))  # type: ignore[misc]
            plain = _timed(lambda argv=argv: _plain(argv, folder))  # type: ignore[misc]
            times[name].append((inside, plain))
        if progress:
            progress(done + 1, repeats)
    for name, pairs in times.items():
        alone = statistics.median(plain for _, plain in pairs)
        over = [inside - plain for inside, plain in pairs]
        rows.append(median_row(f"{name}: overhead", over, "ms", bar=BAR_MS, note=f"alone {alone:.1f}"))
    return rows


def _requests(box: Sandbox, repeats: int) -> list[Row]:
    def changed() -> None:
        box.run(["sh", "-c", "echo x > new"])

    box.call("os:listdir", ".")
    heavy_entry = "rover.sandbox.inside.heavy:total"
    box.call(heavy_entry, "data.csv")
    before = os.times()
    rows = [_processor(box, repeats)] if isinstance(box, BubblewrapSandbox) else []
    rows += [
        median_row("call, light", [_timed(lambda: box.call("os:listdir", ".")) for _ in range(repeats)], "ms"),
        median_row("call, pandas", [_timed(lambda: box.call(heavy_entry, "data.csv")) for _ in range(repeats)], "ms"),
        median_row("snapshot", [_timed(box.snapshot, changed) for _ in range(repeats)], "ms"),
        median_row("reset", [_timed(box.reset, changed) for _ in range(repeats)], "ms"),
    ]
    after = os.times()
    own = 1000 * (after.user + after.system - before.user - before.system) / (7 * repeats)
    return [*rows, Row("host CPU a request", own, "ms")]


def _processor(box: BubblewrapSandbox, repeats: int) -> Row:
    """All processor time in the box for a command that does nothing, less the command's own."""
    before = box.processor_time()
    own = sum(box.run(["true"]).cpu_s for _ in range(repeats))
    return Row("CPU in the box", 1000 * (box.processor_time() - before - own) / repeats, "ms")


def _life(runtime: Runtime, repeats: int) -> list[Row]:
    starts, ends = [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        box = runtime.open({"a": b"1"})
        starts.append(1000 * (time.perf_counter() - begin))
        ends.append(_timed(box.close))
    return [median_row("start of a box", starts, "ms"), median_row("end of a box", ends, "ms")]


def _timed(act: Callable[[], object], before: Callable[[], object] | None = None) -> float:
    if before:
        before()
    begin = time.perf_counter()
    act()
    return 1000 * (time.perf_counter() - begin)


def _plain(argv: list[str], folder: str) -> None:
    """The same command with the same interpreter and environment, outside."""
    own = [sys.executable if word == "python3" else word for word in argv]
    subprocess.run(own, cwd=folder, env={**ENVIRONMENT, "PATH": os.defpath}, capture_output=True, check=True)
