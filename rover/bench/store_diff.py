"""Diff of two revisions of a whole suite that differ in ten packages: by id, by content, and against git.

In process a store is opened anew for every sample, so that nothing of an earlier one is remembered.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rover.bench.process import run
from rover.bench.rows import Row, median_row
from rover.bench.store_write import copy_store
from rover.bench.suite import clock
from rover_store.layout import package_trees
from rover_store.store import Store

Tick = Callable[[int, int], None]
CHANGED = 10
#: what is changed, in turn: a line of text, a cell of a table, a field of a record
_FILES = ("context/files/notes.md", "context/files/orders.csv", "task/task.json")


def measure_diff(work: Path, suite: Path, tick: Tick | None = None, repeats: int = 15) -> list[Row]:
    """CPU of the diff of two revisions; `suite` is the folder of a suite and is not written to."""
    work.mkdir(parents=True, exist_ok=True)
    copy = copy_store(suite, work / "diff")
    try:
        old, new, count = _change(copy)
        trees, whole = [], []
        for n in range(repeats):
            trees.append(1000 * _cpu(lambda: _by_id(copy, old, new)))
            whole.append(1000 * _cpu(lambda: _by_content(copy, old, new)))
            if tick is not None:
                tick(n + 1, repeats)
        git: list[str | Path] = ["git", "--git-dir", copy / ".rover/store.git", "diff", "--stat", "--no-renames"]
        program = "from rover.cli.entry import main; main()"
        rover: list[str | Path] = [sys.executable, "-c", program, "--store", copy]
        mine, theirs = [], []
        for _ in range(5):
            theirs.append(1000 * run([*git, old, new], work).cpu)
            mine.append(1000 * run([*rover, "diff", "--stat", old, new], work).cpu)
    finally:
        shutil.rmtree(copy)
    what = f"diff, {CHANGED} of {count:,} packages changed"
    by_id = median_row(f"{what}, by file", trees, "ms", bar=50, note="in process, store opened anew")
    content = median_row(f"{what}, by field, cell and line", whole, "ms", bar=50, note="in process")
    git_ms, rover_ms = min(theirs), min(mine)
    ratio = content.value / git_ms
    side = f"{content.value:.1f} ms in process, git {git_ms:.1f} ms, rover as a process {rover_ms:.0f} ms"
    return [by_id, content, Row(f"{what} / git diff --stat", ratio, "ratio of CPU", note=side)]


def _change(folder: Path) -> tuple[str, str, int]:
    """Two revisions of a suite, the second with ten packages changed, and how many packages there are."""
    store = Store.open(folder, clock=clock())
    old = store.commit()
    trees = package_trees(store.objects, old.tree)
    names = list(trees)[:: max(1, len(trees) // CHANGED)][:CHANGED]
    with store.write("change") as tx:
        for n, name in enumerate(names):
            path = _FILES[n % len(_FILES)]
            item = store.objects.subtree(trees[name], path)
            data = store.objects.read(item.id) if item is not None else b""
            tx.set_package(name, tx.edit_tree(trees[name], {path: _edited(path, data)}))
        new = tx.commit(f"Change {len(names)} packages")
    return old.id, new, len(trees)


def _edited(path: str, data: bytes) -> bytes:
    if path.endswith(".json"):
        return data.replace(b"Sum the orders", b"Add the orders up")
    lines = data.split(b"\n")
    middle = len(lines) // 2
    lines[middle] = lines[middle].replace(b",", b",9", 1) or b"one more line"
    return b"\n".join(lines)


def _by_id(folder: Path, old: str, new: str) -> None:
    found = Store.open(folder).diff(old, new)
    if len(found.packages) != CHANGED:
        raise AssertionError(f"{len(found.packages)} packages differ")


def _by_content(folder: Path, old: str, new: str) -> None:
    from rover_store.diffs import contents

    store = Store.open(folder)
    found = [changed.content.says for changed in contents(store.objects, store.diff(old, new))]
    if len(found) != CHANGED or not all(found):
        raise AssertionError(f"{len(found)} files differ")


def _cpu(work: Callable[[], None]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
