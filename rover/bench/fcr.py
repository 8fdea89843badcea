"""`rover bench fcr`: a suite through diagnosis, FCR and the other methods, case by case in worker processes.

The suite is made where it is not there, every finished case is kept, and a bench that was ended at any moment goes on
with the cases that are missing. What the manifest knows stays in this process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rover.bench.fcr_case import Job
from rover.bench.fcr_pool import Pool, Results, code
from rover.bench.suites import open as suites
from rover.bench.suites.manifest import Case, Manifest, Split
from rover.sandbox.registry import open_runtime
from rover_store.errors import UsageError
from rover_store.ids import BIT, COMPONENTS

NAMED = ("controlled", "natural", "agents")
SPLITS = ("development", "held-out")


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """What to run. `suite` is a name, or the folder of a suite; `limit` takes its first cases."""

    suite: str
    split: str = "development"
    count: int = 0
    limit: int | None = None
    seed: int = 0
    workers: int = 2
    work: Path = Path("rover-bench")
    exhaustive: bool = False
    baselines: bool = True
    leave_out: bool = False
    styles: int = 1
    given: bool = False
    sandbox: str = ""
    case: str = ""


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite on disk, and the cases of it that are run."""

    folder: Path
    manifest: Manifest
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class BenchReport:
    """Rows in the order of the suite; `ran` cases of them just now, the others were there."""

    suite: str
    split: str
    rows: tuple[dict[str, Any], ...]
    ran: int
    seconds: float
    code: str

    @property
    def errors(self) -> dict[str, str]:
        return {r["facts"]["id"]: r["error"] for r in self.rows if r["result"] is None}


@dataclass(frozen=True, slots=True)
class Told:
    """Where a bench stands. `left` is the guess of the seconds that are left, None before the first case."""

    done: int
    total: int
    left: float | None
    doing: tuple[str, ...] = ()


def open_suite(request: BenchRequest, tell: Callable[[str], None] = lambda text: None) -> Suite:
    """The suite, made first where it has a name and is not there. PackageError for a manifest that was edited."""
    if request.split not in SPLITS:
        raise UsageError(f"--split {request.split}: one of {', '.join(SPLITS)}")
    folder = Path(request.suite) if request.suite not in NAMED else _named(request, tell)
    found = suites.open_suite(folder).manifest
    cases = found.cases[: request.limit]
    if request.case:
        cases = (found.case(request.case),)
    return Suite(folder, found, cases)


def _named(request: BenchRequest, tell: Callable[[str], None]) -> Path:
    from rover.bench import named_suites as known

    split: Split = "held-out" if request.split == "held-out" else "development"
    return known.folder(
        request.suite, split, request.count, request.seed, request.work, request.workers, request.sandbox, tell
    )


def jobs(suite: Suite, request: BenchRequest) -> list[Job]:
    """What the workers are told. With `leave_out` the rules for a case's kinds are off; sound packages have none."""
    agents = suite.manifest.suite == "agents"
    out = []
    for case in suite.cases:
        if request.leave_out and case.label != "defect":
            continue
        kinds = {part for kind in case.kinds for part in kind.split("+")} | set(case.kinds)
        out.append(
            Job(
                case=case.id,
                store=str(suite.folder.resolve()),
                commit=case.commit,
                package=case.package,
                runs=tuple((run.policy, run.seed) for run in case.runs),
                given=_given(suite.folder, case) if request.given else None,
                without=tuple(sorted(kinds | {e.kind for e in case.expects})) if request.leave_out else (),
                seed=request.seed,
                styles=request.styles,
                exhaustive=request.exhaustive,
                baselines=request.baselines and not agents,
                share=case.package if agents else "",
            )
        )
    return out


def _given(folder: Path, case: Case) -> dict[str, str] | None:
    """Frozen proposals that lie beside the suite, by component."""
    below = folder / "proposals" / case.id
    found = {p.name: str(p.resolve()) for p in sorted(below.iterdir()) if p.is_dir()} if below.is_dir() else {}
    return found or None


def bench(
    suite: Suite, request: BenchRequest, told: Callable[[Told], None] = lambda now: None
) -> BenchReport:
    """Run what is missing and put all rows together. SandboxError where no box can be started at all."""
    results = Results(request.work / "results")
    asked = jobs(suite, request)
    if request.given:
        asked = [job for job in asked if job.given]
    if not asked:
        raise UsageError("no case of this suite fits what was asked for")
    known = {job.case: found for job in asked if (found := results.get(job)) is not None}
    todo = [job for job in asked if job.case not in known]
    began, errors, fresh = time.monotonic(), dict[str, str](), 0

    def stand(doing: Sequence[str] = ()) -> None:
        spent = time.monotonic() - began
        left = spent / fresh * (len(todo) - fresh) if fresh else None
        told(Told(len(asked) - len(todo) + fresh, len(asked), left, tuple(doing)))

    stand()
    if todo:
        open_runtime(request.sandbox or None).close()  # what no worker could do is said once
        with Pool(request.workers, request.sandbox) as pool:
            for job, result, error in pool.run(todo, stand):
                fresh += 1
                if result is None:
                    errors[job.case] = error
                else:
                    results.put(job, result)
                    known[job.case] = result
                stand()
    by_id = {case.id: case for case in suite.cases}
    rows = tuple(
        row(suite.folder, by_id[job.case], job, known.get(job.case), errors.get(job.case, "")) for job in asked
    )
    spent = round(time.monotonic() - began, 1)
    return BenchReport(suite.manifest.suite, suite.manifest.split, rows, len(todo), spent, code())


def row(folder: Path, case: Case, job: Job, result: dict[str, Any] | None, error: str) -> dict[str, Any]:
    """One case: what the manifest knows of it, how it was run, what came of it."""
    facts = case.model_dump(mode="json", exclude={"witness", "branch"})
    facts["historical"] = sum(BIT[c] for c in COMPONENTS if c in (_given(folder, case) or {}))
    settings = {"without": list(job.without), "seed": job.seed, "styles": job.styles, "given": bool(job.given)}
    return {"facts": facts, "settings": settings, "result": result, "error": error}


def as_json(report: BenchReport, request: BenchRequest) -> dict[str, Any]:
    """The report with every case and every measure."""
    from rover.bench.measures import summary

    return {
        "bench": "fcr",
        "suite": report.suite,
        "split": report.split,
        "seed": request.seed,
        "leave_out": request.leave_out,
        "given": request.given,
        "rover": {"version": version("workrover"), "code": report.code},
        "ran": report.ran,
        "seconds": report.seconds,
        "workers": request.workers,
        "summary": summary(report.rows),
        "cases": list(report.rows),
    }
