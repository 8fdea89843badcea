"""Questions to the dependency graph at the size of real suites: closure, staleness, impact, status.

Each is asked by a process of its own that opens the store anew; it measures itself from after its imports.
"""

from __future__ import annotations

import shutil
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from rover.bench import suite as suites
from rover.bench.process import run
from rover.bench.rows import Row, median_row
from rover.bench.store_write import copy_store
from rover_store.store import Store

Tick = Callable[[int, int], None]
CHANGED = 10
#: what is asked in a process of its own; prints CPU milliseconds and the size of the answer
_ASK = """
import sys, time
from pathlib import Path
from rover_store import evidence_at, explain, graph_at, impact
from rover_store.index import rows as index_rows
from rover_store.store import Store
from rover.ops.status import status
begin = time.process_time()
store = Store.open(Path(sys.argv[1]))
answer = {question}
print(1000 * (time.process_time() - begin), len(answer))
"""


def measure_graph(suite: Path, tick: Tick | None = None, repeats: int = 7) -> list[Row]:
    """CPU of each question on a copy of a suite; the suite is not written to."""
    copy = copy_store(suite, suite.parent / f"{suite.name}-graph")
    try:
        store = Store.open(copy, clock=suites.clock())
        store.index.sync()
        nodes = len(store.graph()[1])
        packages = _change(store)
        return _rows(copy, packages, nodes, repeats, tick)
    finally:
        shutil.rmtree(copy)


def _rows(copy: Path, packages: int, nodes: int, repeats: int, tick: Tick | None) -> list[Row]:
    group, hub = "resources/files/group-00000", "resources/files/hub-01"
    asked: list[tuple[str, str, float | None]] = [
        (f"closure of a resource, {nodes:,} nodes, cold", f"store.closure([{group!r}])", 50),
        ("closure of a resource that a 32nd of all share", f"store.closure([{hub!r}])", None),
        ("closure at the revision before", f"store.closure([{group!r}], 'HEAD~1')", None),
        (f"stale edges of all {packages:,} packages", "store.stale()", 3000),
        ("stale edges of the revision before", "store.stale('HEAD~1')", None),
        (f"impact, {CHANGED} of {packages:,} packages changed", "impact.impact(store, 'HEAD~1').packages", 100),
        (f"status of {packages:,} packages", "status(store).stale", None),
    ]
    rows = []
    for n, (name, question, bar) in enumerate(asked):
        said = [_ask(copy, question) for _ in range(repeats)]
        rows.append(median_row(name, [ms for ms, _ in said], "ms", bar=bar, note=f"answer of {said[0][1]:,}"))
        if tick is not None:
            tick(n + 1, len(asked) + 1)
    rover: list[str | Path] = [sys.executable, "-c", "from rover.cli.entry import main; main()", "--store", copy]
    costs = [1000 * run([*rover, "graph", hub], copy).cpu for _ in range(3)]
    name = "rover graph of that resource, as a process"
    return [*rows, Row(name, statistics.median(costs), "ms", note="with NetworkX")]


def _ask(folder: Path, question: str) -> tuple[float, int]:
    code = _ASK.replace("{question}", question)
    ms, size = run([sys.executable, "-c", code, folder], folder).output.split()
    return float(ms), int(size)


def _change(store: Store) -> int:
    """Commit a change of ten packages, half of them in the task, half in the verifier. Returns how many there are."""
    packages = store.packages()
    with store.write("change") as tx:
        for n, package in enumerate(packages[:: max(1, len(packages) // CHANGED)][:CHANGED]):
            path = "task/instruction.md" if n % 2 else "verifier/checks/main.py"
            tx.set_package(package.name, tx.edit_tree(package.tree, {path: b"# changed %d\n" % n}))
        tx.commit(f"Change {CHANGED} packages")
    return len(packages)
