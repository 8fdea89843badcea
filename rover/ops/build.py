"""Build packages from a folder of real files: a number of attempts, and one commit of all that were admitted."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rover.construct.build import Attempt, Built, Workspace, attempt
from rover.construct.families.protocol import Dropped
from rover.construct.families.registry import families
from rover.construct.profile import Profile, profile_folder, read_source
from rover.rollout.engine import Engine
from rover_store.errors import PackageError, UsageError
from rover_store.ids import check_name

if TYPE_CHECKING:
    from rover.construct.families.protocol import Family
    from rover.sandbox.protocol import Files, Runtime
    from rover_store.store import Store

Told = Callable[["Row", int, int], None]


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What to build. `count` is attempts; without `families` all known ones take turns.

    `each`: every folder in `folder` is a workspace of its own, with `count` attempts.
    """

    folder: Path
    count: int
    seed: int = 0
    families: tuple[str, ...] = ()
    prefix: str = ""
    license: str = ""
    each: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one attempt: `admitted` with a package, or `dropped` at a stage for a reason."""

    attempt: int
    family: str
    outcome: str
    package: str = ""
    stage: str = ""
    reason: str = ""
    rewrites: int = 0


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The attempts in order. `commit` is empty where nothing was admitted; `skipped` files with their reasons."""

    workspace: str
    rows: tuple[Row, ...]
    commit: str
    skipped: tuple[tuple[str, str], ...] = ()
    resources: tuple[str, ...] = ()
    # what happened, not what came of it: two builds are equal whoever of them found work done
    rollouts_run: int = field(default=0, compare=False)
    rollouts_reused: int = field(default=0, compare=False)

    @property
    def admitted(self) -> tuple[Row, ...]:
        return tuple(r for r in self.rows if r.outcome == "admitted")

    def dropped(self) -> dict[tuple[str, str], int]:
        """How many attempts ended, by family and stage."""
        out: dict[tuple[str, str], int] = {}
        for row in self.rows:
            if row.outcome == "dropped":
                out[row.family, row.stage] = out.get((row.family, row.stage), 0) + 1
        return dict(sorted(out.items()))


def build(
    store: Store,
    runtime: Runtime,
    request: BuildRequest,
    *,
    workers: int = 1,
    told: Told = lambda row, done, total: None,
    command: str = "",
    time: int | None = None,
) -> BuildReport:
    """Make the attempts and commit what was admitted. `told` gets each attempt as it ends.

    PackageError for a folder without usable files. An interrupt commits nothing; the rollouts that were finished
    stay in the evidence, and the next call with the same folder and seed finds them there.
    """
    if request.count < 1:
        raise UsageError("--count must be at least 1")
    chosen = families(*request.families)
    workspaces = read_workspaces(request)
    attempts, ran, reused = _attempts(store, runtime, workspaces, chosen, request, workers, told)
    rows, built = _unique(attempts)
    resources = {name: files for b in built for name, files in b.resources.items()}
    name = workspaces[0].name if not request.each else workspace_name(request.folder.expanduser())
    commit = _commit(store, request, name, built, resources, command, time) if built else ""
    skipped = tuple(line for workspace in workspaces for line in _skipped(workspace, named=request.each))
    return BuildReport(name, rows, commit, skipped, tuple(sorted(resources)), ran, reused)


def _skipped(workspace: Workspace, *, named: bool) -> list[tuple[str, str]]:
    """Files that are left out, with the reason."""
    before = f"{workspace.name}: " if named else ""
    out = [(before + s.path, s.reason) for s in workspace.profile.skipped]
    return out + [
        (before + f.path, f"{f.size} bytes, read in part") for f in workspace.profile.files if not f.sha256
    ]


def read_workspaces(request: BuildRequest) -> list[Workspace]:
    """The folder as one workspace, or each folder in it as one of its own."""
    if not request.each:
        return [read_workspace(request)]
    folder = request.folder.expanduser()
    inside = sorted(p for p in folder.iterdir() if p.is_dir() and not p.is_symlink()) if folder.is_dir() else []
    if not inside:
        raise PackageError(str(folder), "", "there is no folder in it")
    return [read_workspace(replace(request, folder=p)) for p in inside]


def read_workspace(request: BuildRequest) -> Workspace:
    """The profiled folder and the bytes of its files. A file that changed in between is an error."""
    folder = request.folder.expanduser()
    profile: Profile = profile_folder(folder)
    sources = {f.path: read_source(folder, f) for f in profile.files if f.sha256}
    return Workspace(workspace_name(folder), profile, sources, request.license)


def workspace_name(folder: Path) -> str:
    """A name from the folder's own; that of the folder above where it is just called `files`."""
    parts = [p for p in folder.resolve().parts if p not in ("/", "files")]
    slug = re.sub(r"[^a-z0-9]+", "-", parts[-1].lower() if parts else "").strip("-")[:40]
    return check_name(slug or "workspace", str(folder), "name")


def _attempts(
    store: Store,
    runtime: Runtime,
    workspaces: Sequence[Workspace],
    chosen: Sequence[Family],
    request: BuildRequest,
    workers: int,
    told: Told,
) -> tuple[list[Attempt], int, int]:
    """All attempts, in order, and how many rollouts ran and were found in the evidence.

    Each worker has an engine of its own, all share the evidence.
    """
    jobs = [(workspace, number) for workspace in workspaces for number in range(request.count)]
    workers = max(1, min(workers, len(jobs)))
    engines = [Engine(runtime, store.evidence) for _ in range(workers)]
    free: queue.SimpleQueue[Engine] = queue.SimpleQueue()
    for engine in engines:
        free.put(engine)
    stopped = threading.Event()

    def one(workspace: Workspace, number: int) -> Attempt:
        if stopped.is_set():
            raise InterruptedError
        engine = free.get()
        try:
            kind = chosen[number % len(chosen)]
            return attempt(engine, workspace, kind, number, request.seed, prefix=request.prefix)
        finally:
            free.put(engine)

    done: dict[int, Attempt] = {}
    pool = ThreadPoolExecutor(workers, thread_name_prefix="build")
    running: dict[Future[Attempt], int] = {pool.submit(one, *job): at for at, job in enumerate(jobs)}
    try:
        while running:
            finished, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
            for future in finished:
                at = running.pop(future)
                done[at] = future.result()
                told(row_of(done[at]), len(done), len(jobs))
    finally:
        stopped.set()
        for future in running:
            future.cancel()
        for engine in engines:
            engine.close()
        pool.shutdown(wait=True)
    counts = sum(engine.ran for engine in engines), sum(engine.reused for engine in engines)
    return [done[at] for at in range(len(jobs))], *counts


def row_of(found: Attempt) -> Row:
    """One attempt as a row."""
    outcome = found.outcome
    if isinstance(outcome, Dropped):
        return Row(found.number, found.family, "dropped", stage=outcome.stage, reason=outcome.reason)
    return Row(found.number, found.family, "admitted", package=outcome.name, rewrites=outcome.rewrites)


def _unique(attempts: Sequence[Attempt]) -> tuple[tuple[Row, ...], list[Built]]:
    """Rows and packages; a task that an earlier attempt built already is dropped."""
    rows: list[Row] = []
    built: dict[str, Built] = {}
    for found in attempts:
        row = row_of(found)
        if isinstance(found.outcome, Built):
            if found.outcome.name in built:
                row = Row(row.attempt, row.family, "dropped", stage="duplicate", reason=f"the same as {row.package}")
            else:
                built[found.outcome.name] = found.outcome
        rows.append(row)
    return tuple(rows), list(built.values())


def _commit(
    store: Store,
    request: BuildRequest,
    workspace: str,
    built: Sequence[Built],
    resources: Mapping[str, Files],
    command: str,
    time: int | None,
) -> str:
    """All packages and resources of the call in one commit; the sealed audits before it, through their own door."""
    store.sealed.append_all({b.name: b.audit for b in built})
    plural = "" if len(built) == 1 else "s"
    trailers = {
        "Rover-Seed": str(request.seed),
        "Rover-Attempts": str(request.count),
        "Rover-Families": ", ".join(sorted({b.family for b in built})),
    }
    with store.write(command or f"build {workspace}") as tx:
        for name, files in sorted(resources.items()):
            tx.set_resource(name, tx.tree(files))
        for one in sorted(built, key=lambda b: b.name):
            tx.set_package(one.name, tx.tree(one.files))
        return tx.commit(
            f"Build {len(built)} package{plural} from {workspace}", trailers=trailers, time=time
        )
