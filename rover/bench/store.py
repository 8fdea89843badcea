"""The benchmark of the store: its parts by name, over two synthetic suites that are built once and kept.

Every part measures ours and what it is held against side by side, in CPU time, in one run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from rover.bench import suite
from rover.bench.rows import Row
from rover_store.errors import UsageError

Tick = Callable[[int, int], None]
#: packages of the smallest suite, which edits are compared with
SMALL = 1_000


class Scale(NamedTuple):
    """How large the suites are. `big` packages take about 100 kB each on disk while an import is measured."""

    packages: int = 10_000
    big: int = 100_000


class Bench(NamedTuple):
    """Where a benchmark works, and over what."""

    work: Path
    scale: Scale

    def suite(self, packages: int, tick: Tick) -> Path:
        """Folder of a suite of so many packages, built where it is not there yet. Not for writing."""
        folder = self.work / f"suite-{packages}"
        suite.build(folder, packages, tick=tick)
        return folder


Part = Callable[[Bench, Tick], "list[Row]"]


def _import(bench: Bench, tick: Tick) -> list[Row]:
    from rover.bench.store_write import measure_import

    return measure_import(bench.work / "import", bench.scale.packages, tick)


def _import_big(bench: Bench, tick: Tick) -> list[Row]:
    from rover.bench.store_write import measure_import

    return measure_import(bench.work / "import", bench.scale.big, tick, memory_bar=600, with_dvc=False)


def _edit(bench: Bench, tick: Tick) -> list[Row]:
    from rover.bench.store_write import measure_edit

    sizes = (min(SMALL, bench.scale.packages), bench.scale.big)
    small, big = (bench.suite(n, tick) for n in sizes)
    return measure_edit(bench.work / "edit", small, big, tick)


def _stream(bench: Bench, tick: Tick) -> list[Row]:
    from rover.bench.store_write import measure_stream

    return measure_stream(bench.work / "stream")


def _history(bench: Bench, tick: Tick) -> list[Row]:
    from rover.bench.store_index import measure_history

    return measure_history(bench.work / "history", bench.scale.packages, bench.scale.packages, tick)


def _graph(bench: Bench, tick: Tick) -> list[Row]:
    from rover.bench.store_graph import measure_graph

    return measure_graph(bench.suite(bench.scale.big, tick), tick)


def _diff(bench: Bench, tick: Tick) -> list[Row]:
    from rover.bench.store_diff import measure_diff

    return measure_diff(bench.work / "diff", bench.suite(bench.scale.big, tick), tick)


def _writers(bench: Bench, tick: Tick) -> list[Row]:
    from rover.bench.store_writers import measure_writers

    return measure_writers(bench.work / "writers", tick=tick)


def _gc(bench: Bench, tick: Tick) -> list[Row]:
    from rover.bench.store_care import measure_gc

    return measure_gc(bench.work / "gc", tick=tick)


PARTS: dict[str, Part] = {
    "import": _import,
    "import-big": _import_big,
    "edit": _edit,
    "stream": _stream,
    "history": _history,
    "graph": _graph,
    "diff": _diff,
    "writers": _writers,
    "gc": _gc,
}


def chosen(names: Iterable[str]) -> list[str]:
    """Names of parts in their order; all where none is given. UsageError for an unknown one."""
    wanted = [n for text in names for n in text.split(",") if n]
    for name in wanted:
        if name not in PARTS:
            raise UsageError(f"--only {name}: no such part", hint="parts: " + ", ".join(PARTS))
    return [n for n in PARTS if n in wanted] if wanted else list(PARTS)


def room(work: Path, scale: Scale, parts: Iterable[str]) -> None:
    """UsageError where the disk does not hold what the parts will write."""
    big = {"import-big": 1.8, "edit": 0.6, "graph": 0.6, "diff": 0.6}
    need = 0.4 * scale.packages / 1e4 * 1e9 + max((big.get(p, 0.0) for p in parts), default=0.0) * scale.big * 1e5
    work.mkdir(parents=True, exist_ok=True)
    state = os.statvfs(work)
    free = state.f_bavail * state.f_frsize
    if free < need:
        hint = "--work names another folder, --big makes the suite smaller"
        raise UsageError(f"{work}: {free / 1e9:.0f} GB free, {need / 1e9:.0f} GB wanted", hint=hint)
