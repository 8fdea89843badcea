"""Check a folder (or archive) of tasks that is in no store: taken into one that lasts as long as the check does."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rover.ops.check import Checked, Told, check, placed
from rover.ops.findings import of_problem
from rover.ops.import_ import ImportRequest, ImportRow, import_
from rover.ops.shard import Shard
from rover.port.protocol import Wanted
from rover_store.errors import UsageError
from rover_store.scratch import scratch
from rover_store.store import Store

if TYPE_CHECKING:
    from rover.sandbox.protocol import Runtime

#: what makes a folder a task
_TASK = "task.toml"


def is_path(text: str) -> bool:
    """Whether a word on the command line means a path, not a glob on names: names hold no slash, and what lies in the
    current folder gives a name no other meaning."""
    return "/" in text or text in (".", "..")


def check_folder(
    path: Path,
    runtime: Runtime | None,
    *,
    kind: str = "harbor",
    seed: int = 0,
    workers: int = 1,
    shard: Shard | None = None,
    told: Told = lambda found, done, total: None,
) -> tuple[Checked, ...]:
    """Check every task below a path. One that is none is a finding. Nothing is written there, and no store touched.

    UsageError where there is no task; PackageError where the path as a whole is none that can be read.
    """
    with _temporary() as folder:
        store = Store.init(folder, clock=lambda: 0)
        report = import_(store, ImportRequest(kind, path, Wanted(), keep_going=True))
        bad = [_refused(row) for row in report.rows if row.outcome == "refused"]
        sources = {row.name: row.source for row in report.rows if row.name}
        alone = (path / _TASK).is_file()
        done: list[Checked] = []

        def heard(found: Checked, number: int, total: int) -> None:
            place = "" if alone else f"{sources[found.package].strip('/')}/"
            done.append(replace(found, folder=place))
            told(done[-1], number, total + len(bad))

        if sources:
            check(store, runtime, seed=seed, workers=workers, shard=shard, told=heard)
        if shard is None or shard.number == 1:
            for number, one in enumerate(bad, len(done) + 1):
                told(one, number, len(done) + len(bad))
            done += bad
    if not done and shard is None:
        raise UsageError(f"{path}: no task was found")
    return tuple(done)


@contextmanager
def _temporary() -> Iterator[Path]:
    """A folder for a store that nobody else can look into. What a killed check left goes with the next one."""
    folder = scratch(Path(tempfile.gettempdir()), "rover-check-")
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _refused(row: ImportRow) -> Checked:
    """A task that is none, as a finding."""
    problem = (row.file or _TASK, row.field, row.reason)
    name = row.source.rpartition("/")[2] or "task"
    return Checked(name, "", (problem,), None, (placed(None, of_problem(problem)),), folder=f"{row.source}/")
