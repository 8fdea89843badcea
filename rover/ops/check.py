"""Check packages: their records fit together, and their verifiers are right on every calibration case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rover.construct.calibrate import Calibration, Kind, calibrate
from rover.construct.references import Problem, problems
from rover.harness.mcp.records import waiting
from rover.rollout.engine import Engine
from rover.rollout.env import load_env
from rover_store.errors import PackageError, UsageError

if TYPE_CHECKING:
    from rover.sandbox.protocol import Runtime
    from rover_store.layout import PackageEntry
    from rover_store.store import Store


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found of one package. Without a calibration its records could not be read."""

    package: str
    tree: str
    problems: tuple[Problem, ...]
    calibration: Calibration | None
    #: what is kept and not run here, a line each
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems and self.calibration is not None and self.calibration.ok

    def count(self, kind: Kind) -> tuple[int, int]:
        """Cases of one kind: how many were right, and how many there are."""
        rows = [row for row in self.calibration.rows if row.kind == kind] if self.calibration else []
        return sum(row.ok for row in rows), len(rows)


def check(
    store: Store,
    runtime: Runtime,
    pattern: str = "*",
    rev: str = "HEAD",
    *,
    seed: int = 0,
    workers: int = 1,
    told: Callable[[Checked, int, int], None] = lambda found, done, total: None,
) -> tuple[Checked, ...]:
    """Check the packages of a revision whose name matches. Rollouts of attackers come from the evidence where it
    holds them. UsageError where the glob matches nothing; a package that cannot be read is a finding."""
    entries = store.packages(rev, pattern)
    if not entries:
        raise UsageError(f"no package of {rev} matches {pattern!r}", hint="`rover list` shows all names")
    out: list[Checked] = []
    with Engine(runtime, store.evidence, workers) as engine:
        for entry in entries:
            out.append(check_package(store, engine, entry, seed))
            told(out[-1], len(out), len(entries))
    return tuple(out)


def check_package(store: Store, engine: Engine, entry: PackageEntry, seed: int = 0) -> Checked:
    """One package: references first, then calibration as far as its records allow one."""
    try:
        env = load_env(store, entry.tree)
    except PackageError as error:
        return Checked(entry.name, entry.tree, ((error.file, error.field, error.reason),), None)
    found, notes = problems(env), waiting(env.harness)
    try:
        return Checked(entry.name, entry.tree, found, calibrate(engine, env, seed), notes)
    except PackageError as error:
        new = (error.file, error.field, error.reason)
        return Checked(entry.name, entry.tree, found if new in found else (*found, new), None, notes)
