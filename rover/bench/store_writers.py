"""Four writers and two readers on one store at the same time, against one writer alone in the same run.

Every process edits one file of a package of its own and commits, as fast as it can, for some seconds of wall time.
Afterwards every commit that was acknowledged must be in the history.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rover.bench.process import environment
from rover.bench.rows import Row
from rover.bench.suite import build, name
from rover_store.store import Store

WRITERS, READERS, PACKAGES = 4, 2, 200
#: seconds that a reader rests between two questions: people and programs do
_REST = 0.002
_EDITED = "context/files/notes.md"
_PROGRAM = "import sys; from rover.bench.store_writers import act; act(*sys.argv[1:])"


class Said(NamedTuple):
    """What one process did: ids of its commits, seconds each of its rounds took, and errors."""

    commits: list[str]
    took: list[float]
    errors: list[str]


def measure_writers(work: Path, seconds: float = 10, tick: Callable[[int, int], None] | None = None) -> list[Row]:
    """Throughput of four writers as a ratio to one, losses, how fair it was, and how long readers waited."""
    work.mkdir(parents=True, exist_ok=True)
    folder = work / "writers"
    shutil.rmtree(folder, ignore_errors=True)
    store = build(folder, PACKAGES)
    say = tick or (lambda _done, _all: None)
    say(0, 3)
    alone = _together(folder, ["write"], seconds / 2)
    say(1, 3)
    several = _together(folder, ["write"] * WRITERS + ["read"] * READERS, seconds)
    say(2, 3)
    alone += _together(folder, ["write"], seconds / 2)  # before and after: the machine may have changed
    say(3, 3)
    writers, readers = several[:WRITERS], several[WRITERS:]
    history = {entry.id for entry in store.log()}
    acknowledged = [commit for said in (*alone, *writers) for commit in said.commits]
    lost = sum(commit not in history for commit in acknowledged) + len(acknowledged) - len(history) + 1
    errors = [error for said in (*alone, *several) for error in said.errors]
    counts = [len(said.commits) for said in writers]
    rate, base = sum(counts) / seconds, sum(len(said.commits) for said in alone) / seconds
    waits = sorted(wait for said in readers for wait in said.took)
    longest = max((max(said.took, default=seconds) for said in writers), default=seconds)
    shutil.rmtree(folder)
    return [
        Row("four writers: errors", len(errors), "count", 0, note=errors[0] if errors else ""),
        Row("four writers: commits lost", lost, "count", 0, note=f"{len(acknowledged)} acknowledged"),
        Row("four writers / one, commits a second", rate / base, "ratio", 0.5, True, f"{rate:.0f} to {base:.0f}"),
        Row("four writers: fewest commits of one / mean", min(counts) / (sum(counts) / WRITERS), "ratio", 0.5, True,
            f"longest wait for one commit {longest * 1000:.0f} ms"),
        Row("readers beside four writers: p99", 1000 * _quantile(waits, 0.99), "ms", 20,
            note=f"median {1000 * _quantile(waits, 0.5):.1f} ms, {len(waits)} times log of a package and a file"),
    ]  # fmt: skip


def act(what: str, folder: str, number: str, seconds: str) -> None:
    """One process: starts when it is told to, and prints what it did as JSON."""
    store = Store.open(Path(folder))
    store.packages()
    one = _write if what == "write" else _read
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    said = Said([], [], [])
    end = time.monotonic() + float(seconds)
    while (began := time.monotonic()) < end:
        try:
            one(store, int(number), said)
        except Exception as error:
            said.errors.append(f"{type(error).__name__}: {error}")
        said.took.append(time.monotonic() - began)
        if what == "read":
            time.sleep(_REST)
    sys.stdout.write(json.dumps(said._asdict()) + "\n")


def _write(store: Store, number: int, said: Said) -> None:
    package = name(number)
    with store.write(f"edit {package}") as tx:
        data = f"{number} {len(said.commits)}\n".encode()
        tx.set_package(package, tx.edit_tree(store.package(package).tree, {_EDITED: data}))
        commit = tx.commit(f"Edit {package}")
    said.commits.append(commit)


def _read(store: Store, number: int, said: Said) -> None:
    package = name(number % WRITERS)
    newest = next(store.log(package=package, limit=1))
    item = store.objects.subtree(store.package(package, newest.id).tree, _EDITED)
    if item is None or not store.objects.read(item.id):
        said.errors.append(f"{package} has no {_EDITED}")


def _together(folder: Path, roles: Sequence[str], seconds: float) -> list[Said]:
    """Start processes, let them go at once, and collect what they say."""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, role, folder, str(number), str(seconds)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(folder),
        )
        for number, role in enumerate(roles)
    ]  # fmt: skip
    try:
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        return [_said(child.communicate()[0]) for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()


def _said(text: str) -> Said:
    try:
        row: dict[str, Any] = json.loads(text)
    except ValueError:
        return Said([], [], ["a process ended early"])
    return Said(**row)


def _quantile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0
