"""`rover inject --suite`: a suite of cases, with a table of what was made."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rover.cli.output import counted, note, print_json, progress, say, table
from rover_store.errors import UsageError

if TYPE_CHECKING:
    from rover.bench.suites.make import SuiteReport


def make_suite(
    name: str, count: int, seed: int, split: str, history: bool, out: Path | None, work: Path | None, sandbox: str,
    workers: int, as_json: bool,
) -> None:  # fmt: skip
    """Make it and say what came of it."""
    from rover.bench.suites.make import SuiteRequest, make
    from rover.bench.suites.spec import load
    from rover.sandbox.registry import open_runtime

    if name == "natural":
        _natural(out or Path(name), sandbox, workers, as_json)
        return
    if split not in ("development", "held-out"):
        raise UsageError(f"--split {split}: development or held-out")
    spec, beside = load(name)
    folder = out or Path(f"{spec.name}-{split}-{seed}")
    request = SuiteRequest(spec, folder, count, seed, split, history, beside, work)  # type: ignore[arg-type]
    runtime = open_runtime(sandbox or None)
    try:
        with progress("suite", count) as bar:

            def told(stage: str, done: int, total: int, what: str) -> None:
                bar(done, total, f"{stage} {what}")

            report = make(runtime, request, workers, told)
    finally:
        runtime.close()
    _print(report, folder, as_json)


def _natural(folder: Path, sandbox: str, workers: int, as_json: bool) -> None:
    """The natural cases: no spec, no count and no seed, for each is one package."""
    from rover.bench.natural.make import cases, make
    from rover.bench.natural.page import HEADER, rows
    from rover.sandbox.registry import open_runtime

    runtime = open_runtime(sandbox or None)
    keys = [case.key for case in cases()]
    try:
        with progress("suite", len(keys)) as bar:
            made = make(
                folder, runtime, workers=workers, progress=lambda key: bar(keys.index(key), len(keys), f"made {key}")
            )
    finally:
        runtime.close()
    if as_json:
        print_json({"suite": str(folder), "digest": made.digest, "cases": len(made.cases)})
        return
    print(table(rows(), HEADER, right=(1,)))
    say(f"suite in {folder}; next: rover help natural")


def _print(report: SuiteReport, folder: Path, as_json: bool) -> None:
    found = report.manifest
    if as_json:
        told: dict[str, Any] = {"suite": str(folder), "digest": found.digest, "cases": len(found.cases)}
        told |= report.labels()
        told["by_kinds"] = [{"kinds": list(kinds), "cases": n} for kinds, n in report.counts().items()]
        told["dropped_draws"] = report.dropped
        told["lost_attempts"] = [asdict(lost) for lost in report.lost]
        print_json(told)
        return
    print(table(report.by_kind(), ("kind", "alone", "in two", "in three", "all"), right=(1, 2, 3, 4)))
    print()
    rows = [(label, n, f"{n / len(found.cases):.1%}") for label, n in report.labels().items()]
    print(table(rows, ("label", "cases", "share"), right=(1, 2)))
    print()
    print(table(list(report.workspaces().items()), ("workspace", "cases"), right=(1,)))
    for lost in report.lost:
        note(f"no base: {lost.workspace}, {lost.family}: {lost.reason}")
    for kinds, n in report.dropped.items():
        note(f"drawn again, without effect: {kinds}, {n} times")
    say(f"\n{counted(len(found.cases), 'case')} of the {found.split} split in {folder}, manifest {found.digest[:12]}")
