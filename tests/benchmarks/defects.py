"""Every kind of defect through the whole method: inject, diagnose, repair, and look whether the answer was right.

    python tests/benchmarks/defects.py --from examples/workspaces/penguins/files --out defects.json

A small store of packages is built once. Each case works on a copy of it: the package is sound, is broken on purpose,
the diagnosis blames the environment and names an expected finding, the repair is promoted with a combination that
the injector calls right, and afterwards the package is sound again. Beside these, sound packages in which agents
failed: nothing may change there. Seeded, so that a case can be run again by its kind alone.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path

from rover.construct.families.registry import families
from rover.diagnose.inject.protocol import Unfit
from rover.ops.build import BuildRequest, build
from rover.ops.diagnose import diagnose_package
from rover.ops.inject import Injected, inject, kinds
from rover.ops.listing import package_json
from rover.ops.repair import RepairReport, RepairRequest, repair
from rover.ops.run import RunRequest, run
from rover.repair.fcr import letters
from rover.sandbox.protocol import Runtime
from rover.sandbox.registry import open_runtime
from rover_store.errors import RoverError
from rover_store.records import Diagnosis
from rover_store.store import Store

HERE = Path(__file__).resolve().parents[2]
#: nothing is wrong with the package; `agent`: rollouts failed in it all the same, such as a build's careless ones
SOUND = ("sound", "agent")
AGENT = "agent_mistake"
SLIPS = ("solver+skip_write", "solver:alternative+drop_row", "solver+perturb_number")
ATTACKERS = ("null:nothing", "null:echo")


@dataclass
class Case:
    """One case and what came of it. `wrong` lists every check that failed; a case without one is right."""

    kind: str
    family: str
    package: str
    seed: int
    what: str = ""
    verdict: str = ""
    findings: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    proposals: list[str] = field(default_factory=list)
    selected: str = ""
    right: list[str] = field(default_factory=list)
    outcome: str = ""
    reason: str = ""
    rejected: list[str] = field(default_factory=list)
    after: str = ""
    rollouts: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def check(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.wrong.append(otherwise)


class Matrix:
    """The cases over one store."""

    def __init__(self, base: Path, runtime: Runtime, workers: int) -> None:
        self.base = base
        self.runtime = runtime
        self.workers = workers
        self.by_family = packages(Store.open(base))
        self.sound: dict[str, str] = {}

    def choice(self, number: int, seed: int) -> list[tuple[str, str]]:
        """Packages to try for a kind, the first that offers a hold is taken: families take turns."""
        names = list(self.by_family)
        turned = [names[(number + seed + i) % len(names)] for i in range(len(names))]
        return [(f, p) for f in turned for p in _turned(self.by_family[f], number + seed)]

    def fitting(self, kind: str, seed: int, choice: Sequence[tuple[str, str]]) -> tuple[str, str]:
        """Family and name of the first package that offers a hold; empty where none does."""
        for family, package in choice:
            try:
                inject(Store.open(self.base), package, kind, seed, dry_run=True)
            except Unfit:
                continue
            return family, package
        return "", ""

    def defect(self, case: Case, store: Store) -> None:
        """One injected defect through diagnosis and repair."""
        case.check(self.verdict_before(case.package) in SOUND, "not sound before the injection")
        done = inject(store, case.package, case.kind, case.seed)
        case.what = done.note
        found = diagnose_package(store, self.runtime, case.package, workers=self.workers)
        self._diagnosed(case, found, done)
        report = repair(store, self.runtime, RepairRequest(case.package), workers=self.workers)
        _told(case, report, found)
        masks = right_masks(done)
        case.right = [letters(m) for m in masks]
        case.check(report.promoted, f"{report.repair.outcome}: {report.repair.reason}")
        if report.promoted:
            case.check(report.repair.selected in masks, f"selected {case.selected}, right is {' or '.join(case.right)}")
            again = diagnose_package(store, self.runtime, case.package, workers=self.workers)
            case.after = again.verdict
            case.check(again.verdict in SOUND, f"afterwards {again.verdict}: {again.summary}")

    def _diagnosed(self, case: Case, found: Diagnosis, done: Injected) -> None:
        case.verdict = found.verdict
        confirmed = [f for f in found.findings if f.status == "confirmed"]
        case.findings = [f"{f.probe}: {f.kind} ({f.components[0]})" for f in confirmed]
        case.expected = [f"{kind} ({component})" for kind, component in done.expects]
        named = {(f.kind, f.components[0]) for f in confirmed}
        case.check(found.verdict == "environment", f"diagnosed as {found.verdict}")
        for kind, component in done.expects:
            case.check((kind, component) in named, f"no finding {kind} ({component})")

    def agent(self, case: Case, store: Store) -> None:
        """A sound package in which careless agents and attackers failed: nothing may change."""
        package, number = case.package, case.seed
        case.expected = ["agent"]
        case.check(self.verdict_before(package) in SOUND, "not sound before")
        failed = 0
        for policy in (SLIPS[number % len(SLIPS)], *ATTACKERS):
            report = run(store, self.runtime, RunRequest(package, policy, attempts=2), workers=self.workers)
            failed += sum(row.outcome != "passed" for row in report.rows)
        case.what = f"{failed} recorded rollouts failed"
        head = store.resolve("HEAD")
        found = diagnose_package(store, self.runtime, package, workers=self.workers)
        case.verdict = found.verdict
        case.check(found.verdict in SOUND, f"diagnosed as {found.verdict}: {found.summary}")
        report2 = repair(store, self.runtime, RepairRequest(package), workers=self.workers)
        _told(case, report2, found)
        case.right = ["-"]
        case.check(not report2.promoted and store.resolve("HEAD") == head, "the branch moved")
        case.check(report2.repair.outcome == "abstained", f"the outcome is {report2.repair.outcome}")
        said = ("sound", "nothing")
        case.check(any(w in report2.repair.reason for w in said), f"does not say so: {report2.repair.reason}")
        case.after = found.verdict

    def verdict_before(self, package: str) -> str:
        """The verdict on the unbroken package; its rollouts stay in the base store's evidence for every copy."""
        if package not in self.sound:
            store = Store.open(self.base)
            self.sound[package] = diagnose_package(store, self.runtime, package, workers=self.workers).verdict
        return self.sound[package]


def right_masks(done: Injected) -> tuple[int, ...]:
    """The combinations that repair an injection rightly."""
    return done.right


def packages(store: Store) -> dict[str, list[str]]:
    """Family -> names of its packages."""
    found: dict[str, list[str]] = {}
    for entry in store.packages():
        found.setdefault(str(package_json(store, entry.tree)["family"]), []).append(entry.name)
    return dict(sorted(found.items()))


def build_base(base: Path, source: Path, runtime: Runtime, attempts: int, seed: int, workers: int) -> None:
    """A store with at least two packages of each family; StoreError where the folder does not give them."""
    store = Store.open(base) if (base / ".rover").is_dir() else Store.init(base)
    every = [f.name for f in families()]
    for more in count():
        known = packages(store)
        lacking = tuple(f for f in every if len(known.get(f, ())) < 2)
        if not lacking:
            return
        if more == 5:
            raise SystemExit(f"{source} gives no two packages of {', '.join(lacking)}")
        tell(f"build {', '.join(lacking)}")
        request = BuildRequest(source, attempts if not more else 2 * len(lacking), seed + more, lacking)
        build(store, runtime, request, workers=workers)


def table(cases: Sequence[Case]) -> str:
    """The cases at 80 columns, then right of all by kind."""
    head = ("kind", "family", "verdict", "found", "sel.", "outcome", "runs", "s", "")
    lines = [_line(head)]
    for case in cases:
        found = "yes" if not any(w.startswith(("no finding", "diagnosed")) for w in case.wrong) else "no"
        mark = "ok" if not case.wrong else "WRONG"
        row = (case.kind, case.family, case.verdict, found, case.selected, case.outcome, case.rollouts)
        lines.append(_line((*row, f"{case.seconds:.0f}", mark)))
    lines.append("")
    for kind in dict.fromkeys(c.kind for c in cases):
        mine = [c for c in cases if c.kind == kind]
        lines.append(f"{kind:32} {sum(not c.wrong for c in mine)} of {len(mine)}")
    lines.append(f"{'all':32} {sum(not c.wrong for c in cases)} of {len(cases)}")
    return "\n".join(lines)


def _line(row: Sequence[object]) -> str:
    widths = (20, 9, 11, 5, 4, 9, 4, 4, 5)
    cells = [f"{str(cell)[:w]:>{w}}" if i in (6, 7) else f"{str(cell)[:w]:{w}}" for i, (cell, w) in
             enumerate(zip(row, widths, strict=True))]  # fmt: skip
    return " ".join(cells).rstrip()


def _told(case: Case, report: RepairReport, found: Diagnosis) -> None:
    record = report.repair
    case.outcome, case.reason = record.outcome, record.reason
    case.selected = letters(record.selected) if record.selected is not None else "-"
    case.proposals = [f"{p.component}: {p.rationale}" for p in record.proposals]
    case.rejected = [
        f"{letters(c.mask)}: {g.gate}: {g.reason}" for c in record.candidates for g in c.gates if not g.passed
    ]
    case.rollouts = found.rollouts_run + report.rollouts_run


def _turned(names: list[str], by: int) -> list[str]:
    return [names[(by + i) % len(names)] for i in range(len(names))]


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    source = HERE / "examples/workspaces/penguins/files"
    parser.add_argument("--from", dest="source", type=Path, default=source, help="folder to build from")
    parser.add_argument("--kinds", nargs="+", default=[], metavar="KIND", help=f"kinds to run; also {AGENT}")
    parser.add_argument("--seeds", type=int, default=3, help="cases of each kind")
    parser.add_argument("--only", type=int, nargs="+", default=[], metavar="SEED", help="run these seeds alone")
    parser.add_argument("--attempts", type=int, default=12, help="packages to try to build")
    parser.add_argument("--seed", type=int, default=0, help="seed of the build")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work", type=Path, help="keep the store here, and use it again")
    parser.add_argument("--out", type=Path, metavar="FILE", help="every case as JSON")
    asked = parser.parse_args()
    known = [k.kind for k in kinds()]
    wanted = asked.kinds or [*known, AGENT]
    for kind in wanted:
        if kind not in (*known, AGENT):
            parser.error(f"unknown kind {kind}; known: {', '.join((*known, AGENT))}")
    with tempfile.TemporaryDirectory() as folder:
        work = asked.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        runtime = open_runtime()
        try:
            cases = run_all(asked, wanted, known, work, runtime)
        finally:
            runtime.close()
    print(table(cases))
    return 0 if cases and not any(c.wrong for c in cases) else 1


def run_all(
    asked: argparse.Namespace, wanted: Sequence[str], known: Sequence[str], work: Path, runtime: Runtime
) -> list[Case]:
    base = work / "base"
    base.mkdir(exist_ok=True)
    build_base(base, asked.source, runtime, asked.attempts, asked.seed, asked.workers)
    matrix = Matrix(base, runtime, asked.workers)
    cases: list[Case] = []
    for seed in asked.only or range(asked.seeds):  # every kind once before any kind twice
        for kind in wanted:
            number = known.index(kind) if kind != AGENT else 0
            try:
                case = one(matrix, kind, seed, matrix.choice(number, seed), work)
            except KeyboardInterrupt:
                tell("interrupted: the table holds what was finished")
                return in_order(cases, wanted)
            cases.append(case)
            tell(f"{len(cases):3} {kind} {seed} {case.package} {case.selected} {'; '.join(case.wrong) or 'ok'}")
            if asked.out:
                asked.out.write_text(json.dumps([asdict(c) for c in cases], indent=1) + "\n")
    return in_order(cases, wanted)


def in_order(cases: Sequence[Case], wanted: Sequence[str]) -> list[Case]:
    return sorted(cases, key=lambda c: (wanted.index(c.kind), c.seed))


def one(matrix: Matrix, kind: str, seed: int, choice: Sequence[tuple[str, str]], work: Path) -> Case:
    """One case on a copy of the store. An error of rover is a case that went wrong, not the end."""
    family, package = choice[0] if kind == AGENT else matrix.fitting(kind, seed, choice)
    case = Case(kind, family, package, seed)
    if not package:
        case.check(False, "no package offers a hold")
        return case
    began = time.monotonic()
    copy = work / "case"
    try:
        matrix.verdict_before(package)  # before the copy, so that it has the rollouts
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(matrix.base, copy, symlinks=True)
        (matrix.agent if kind == AGENT else matrix.defect)(case, Store.open(copy))
    except RoverError as error:
        case.wrong.append(f"{type(error).__name__}: {error}")
    case.seconds = round(time.monotonic() - began, 1)
    shutil.rmtree(copy, ignore_errors=True)
    return case


if __name__ == "__main__":
    sys.exit(main())
