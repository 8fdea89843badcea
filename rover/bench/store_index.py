"""The index and the log at the size of real suites, against git on the same store and against `import typer`."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from rover.bench import suite
from rover.bench.rows import Row, median_row
from rover.bench.startup import BASE, ROVER
from rover_store.names import package_path
from rover_store.store import Store
from rover_store.write import Transaction

Tick = Callable[[int, int], None]
CATCH_UP = 100
_AUTHORS = tuple(f"{name} <{name.lower()}@example.org>" for name in ("Ada", "Bo", "Cem", "Dee", "Eli"))


def with_history(folder: Path, packages: int, commits: int, seed: int = 0, tick: Tick | None = None) -> Store:
    """A suite with that many commits: each edits one package, every fiftieth a resource too. Found again if built."""
    store = suite.build(folder, packages, seed)
    if store.tags().get("history") is None:
        add_commits(store, packages, commits, seed, tick)
        store.tag("history")
    return store


def add_commits(store: Store, packages: int, commits: int, seed: int = 0, tick: Tick | None = None) -> None:
    """Commits one after the other, in one pack and with one move of the branch."""
    rng = random.Random(f"history {seed}")
    head = here = store.resolve()
    trees = {p.name: p.tree for p in store.packages()}
    resources = store.resources()
    branch = store.current_branch() or "main"
    with store.write(f"{commits} commits") as tx:
        for i in range(commits):
            name = suite.name(rng.randrange(packages))
            text = f"Sum the orders, version {i}.\n".encode()
            trees[name] = tx.edit_tree(trees[name], {"task/instruction.md": text})
            more = _resource(tx, resources, rng, i) if i % 50 == 0 else {}
            here = tx.detached_commit(
                f"Edit {name}\n\nVersion {i} of the suite.", base=here, packages={name: trees[name]}, resources=more,
                trailers={"Rover-Seed": str(i % 7)} if i % 10 == 0 else {}, author=_AUTHORS[i % len(_AUTHORS)],
            )  # fmt: skip
            if tick is not None and i % 200 == 0:
                tick(i, commits)
        tx.promote(branch, here, expect=head)


def _resource(tx: Transaction, resources: dict[str, str], rng: random.Random, i: int) -> dict[str, str]:
    name = rng.choice(sorted(resources))
    resources[name] = tx.edit_tree(resources[name], {"files/more.csv": f"{i}\n".encode()})
    return {name: resources[name]}


def measure_history(work: Path, packages: int = 10_000, commits: int = 10_000, tick: Tick | None = None) -> list[Row]:
    """Reindex, catch-up, and the log of one package in process and as a process."""
    store = with_history(work / f"history-{packages}-{commits}", packages, commits, 0, tick)
    return [*_reindex(store), *_catch_up(store, packages), *_logs(store, packages), *_processes(store, packages)]


def _reindex(store: Store) -> list[Row]:
    begin = time.process_time()
    store.reindex()
    spent = time.process_time() - begin
    size = sum(f.stat().st_size for f in store.folder.glob("index.db*")) / 1e6
    return [Row("reindex", spent, "s CPU", 10.0, note=f"index of {size:.0f} MB")]


def _catch_up(store: Store, packages: int, repeats: int = 5) -> list[Row]:
    """Commits that came without the index, as from another git: it goes on from the head it shows."""
    samples = []
    head, branch = store.resolve(), store.current_branch() or "main"
    for i in range(repeats):
        other = Store.open(store.root, clock=suite.clock())
        other.after_write = lambda: None  # type: ignore[method-assign]
        add_commits(other, packages, CATCH_UP, i)
        begin = time.process_time()
        store.index.sync()
        samples.append(1000 * (time.process_time() - begin))
    with store.write("back to the history") as tx:
        tx.move_ref(f"refs/heads/{branch}", store.resolve(), head)
    return [median_row(f"catch-up of {CATCH_UP} commits", samples, "ms CPU", bar=150.0)]


def _logs(store: Store, packages: int, repeats: int = 200) -> list[Row]:
    """The log of one package in a living process, and `git log -- PATH` in its own, CPU for CPU."""
    rng = random.Random("log")
    names = [suite.name(rng.randrange(packages)) for _ in range(repeats)]
    ours = []
    for name in names:
        begin = time.process_time()
        found = [e.id for e in store.log(package=name)]
        ours.append(1000 * (time.process_time() - begin))
        assert found
    theirs = []
    for name in names[:3]:
        spent, out = _child(["git", "-C", str(store.git), "log", "--format=%H", "HEAD", "--", package_path(name)])
        assert out.split() == [e.id for e in store.log(package=name)], name
        theirs.append(1000 * spent)
    one = statistics.median(ours)
    return [
        median_row("log of one package, in process", ours, "ms CPU", bar=1.0),
        Row("git log -- PATH / log of one package", statistics.median(theirs) / one, "ratio", 20.0, True,
            f"git {statistics.median(theirs):.0f} ms CPU", tuple(t / one for t in theirs)),
        _first_page(store),
    ]  # fmt: skip


def _first_page(store: Store, repeats: int = 50) -> Row:
    samples = []
    for _ in range(repeats):
        begin = time.process_time()
        list(islice(store.log(), 20))
        samples.append(1000 * (time.process_time() - begin))
    return median_row("first 20 commits of the whole log, in process", samples, "ms CPU")


def _processes(store: Store, packages: int, repeats: int = 7) -> list[Row]:
    words = [*ROVER, "--store", str(store.root), "log", suite.name(packages // 2)]
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats + 1):
        for command, held in zip((BASE, words), times, strict=True):
            held.append(_child(command)[0])
    base, ours = (statistics.median(held[1:]) for held in times)  # the first fills the page cache
    samples = tuple(a / b for a, b in zip(times[1][1:], times[0][1:], strict=True))
    note = f"{1000 * ours:.0f} ms CPU"
    return [Row("rover log PACKAGE / import typer", ours / base, "ratio", 3.0, False, note, samples)]


def _child(words: list[str]) -> tuple[float, str]:
    """CPU seconds of a process, and its output."""
    env = {k: v for k, v in os.environ.items() if k not in ("ROVER_STORE", "PYTHONDONTWRITEBYTECODE")}
    before = getrusage(RUSAGE_CHILDREN)
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=env)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


if __name__ == "__main__":
    for row in measure_history(Path(sys.argv[1])):
        print(row.name, round(row.value, 3), row.unit, row.bar, row.met, row.note)
