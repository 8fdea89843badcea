"""Check packages: their records fit together, and their verifiers are right on every case whose answer is known.

A package whose verifier is a program is read as a task from elsewhere as well, and diagnosed: its own solution and the
null attackers go through its harness. `static` runs nothing: records and files are read alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rover.construct.calibrate import Calibration, Kind, calibrate
from rover.construct.references import Problem, problems
from rover.harness.mcp.records import waiting
from rover.ops.findings import Said, level_of, of_problem, of_row
from rover.ops.places import in_package, in_task
from rover.ops.shard import Shard, piece
from rover.rollout.env import Env, load_env
from rover_store.errors import PackageError, UsageError
from rover_store.records import Finding

if TYPE_CHECKING:
    from rover.port.lint.task import ForeignTask
    from rover.rollout.engine import Engine
    from rover.sandbox.protocol import Runtime
    from rover_store.layout import PackageEntry
    from rover_store.store import Store


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found of one package. Without a calibration its records could not be read, or nothing was run.

    `refused`: why the sandbox at hand may not run it. `folder`: what stands before the paths of its files.
    """

    package: str
    tree: str
    problems: tuple[Problem, ...]
    calibration: Calibration | None
    said: tuple[Said, ...] = ()
    refused: str = ""
    static: bool = False
    folder: str = ""

    @property
    def ok(self) -> bool:
        if self.problems or self.count_level("error"):
            return False
        return self.static or bool(self.refused) or (self.calibration is not None and self.calibration.ok)

    def count(self, kind: Kind) -> tuple[int, int]:
        """Cases of one kind: how many were right, and how many there are."""
        rows = [row for row in self.calibration.rows if row.kind == kind] if self.calibration else []
        return sum(row.ok for row in rows), len(rows)

    def count_level(self, level: str) -> int:
        return sum(one.level == level for one in self.said)


Told = Callable[[Checked, int, int], None]


def check(
    store: Store,
    runtime: Runtime | None,
    pattern: str = "*",
    rev: str = "HEAD",
    *,
    seed: int = 0,
    workers: int = 1,
    shard: Shard | None = None,
    told: Told = lambda found, done, total: None,
) -> tuple[Checked, ...]:
    """Check the packages of a revision whose name matches. Without a runtime nothing is run. Rollouts of attackers come
    from the evidence where it holds them. UsageError where the glob matches nothing; a package that cannot be read is
    a finding."""
    entries = store.packages(rev, pattern)
    if not entries:
        raise UsageError(f"no package of {rev} matches {pattern!r}", hint="`rover list` shows all names")
    if shard is not None:
        entries = [e for e in entries if shard.takes(piece(e.components, e.name))]
    out: list[Checked] = []

    def each(one: Callable[[PackageEntry], Checked]) -> None:
        for entry in entries:
            out.append(one(entry))
            told(out[-1], len(out), len(entries))

    if runtime is None:
        each(lambda entry: check_package(store, None, entry, seed))
    else:
        from rover.rollout.engine import Engine

        with Engine(runtime, store.evidence, workers) as engine:
            each(lambda entry: check_package(store, engine, entry, seed))
    return tuple(out)


def check_package(store: Store, engine: Engine | None, entry: PackageEntry, seed: int = 0) -> Checked:
    """One package: records first, then what a reader finds, then what runs show, as far as its records allow."""
    try:
        env = load_env(store, entry.tree)
    except PackageError as error:
        return _unread(entry, error)
    done = Checked(entry.name, entry.tree, problems(env), None, folder=f"{entry.name}/")
    done = _check_env(store, engine, env, done, seed)
    return replace(done, said=(*done.said, *_waiting(env)))


def _check_env(store: Store, engine: Engine | None, env: Env, done: Checked, seed: int) -> Checked:
    if env.verifier.program is not None:
        from rover.ops.check_task import check_task

        return check_task(store, engine, env, done, seed)
    found = done.problems
    try:
        return _check_own(engine, env, done, seed)
    except PackageError as error:
        new = (error.file, error.field, error.reason)
        found = found if new in found else (*found, new)
        return replace(done, problems=found, said=tuple(placed(env, of_problem(p)) for p in found))


def _check_own(engine: Engine | None, env: Env, done: Checked, seed: int) -> Checked:
    from rover.rollout.place import refusal

    said = [placed(env, of_problem(p)) for p in done.problems]
    if engine is None:
        said += [placed(env, f) for f in _static(env)]
        return replace(done, said=tuple(said), static=True)
    if why := refusal(env, engine.runtime):
        return replace(done, said=(*said, placed(env, refused(why))), refused=why)
    calibration = calibrate(engine, env, seed)
    said += [replace(placed(env, of_row(row)), level="error") for row in calibration.wrong]
    return replace(done, calibration=calibration, said=tuple(said))


def _static(env: Env) -> list[Finding]:
    """What the probes of diagnosis find that read records and files alone."""
    from rover.diagnose.protocol import ProbeContext
    from rover.diagnose.registry import asked, probes_for

    ctx = ProbeContext(env, engine=None)  # type: ignore[arg-type]  # none of these asks for it
    return [f for probe in probes_for(env) if probe.cost == 0 for f in asked(probe, ctx)[0]]


def refused(why: str) -> Finding:
    """A package that the sandbox at hand may not run."""
    return Finding(probe="sandbox", kind="cannot_run", message=why.removeprefix("refused: "), components=("harness",),
                   details={"subject": "requires", "value": why})  # fmt: skip


def _waiting(env: Env) -> list[Said]:
    """Tool servers that are kept and not offered, since they need a network."""
    said = []
    for line in waiting(env.harness):
        about = {"subject": "mcp_servers", "value": line}
        finding = Finding(probe="sandbox", kind="cannot_run", message=line, components=("harness",), details=about)
        said.append(replace(placed(env, finding), level="note", case="harness/harness.json: mcp_servers"))
    return said


def placed(env: Env | None, finding: Finding, task: ForeignTask | None = None, *, solved: bool = False) -> Said:
    """A finding with its level and place."""
    file, line = in_task(task, finding) if task is not None else in_package(env, finding)
    case = ""
    if finding.probe == "records":
        field = finding.details.get("field")
        case = f"{finding.details['file']}: {field}" if field else str(finding.details["file"])
    elif finding.probe == "calibration":
        case = finding.message.partition(" is ")[0]
    return Said(finding, level_of(finding, solved=solved), file, line, case)


def _unread(entry: PackageEntry, error: PackageError) -> Checked:
    problem = (error.file, error.field, error.reason)
    said = (placed(None, of_problem(problem)),)
    return Checked(entry.name, entry.tree, (problem,), None, said, folder=f"{entry.name}/")
