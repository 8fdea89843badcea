"""`rover demo`: the whole loop, told in short lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rover.cli.output import Json, Sandbox, Workers, now, print_json, table, wrapped

if TYPE_CHECKING:
    from rover.ops.demo import DemoReport
    from rover.ops.repair import RepairReport

BEGIN = {
    "build": "Building packages from real files: profile, contract, reference, calibration, admission ...",
    "run": "Running the families' solvers on every package, in the sandbox ...",
    "diagnose": "Diagnosing it: probes run the task again and hold request, tools, files and checks together ...",
    "repair": "Repairing it: every combination of the proposed edits is built, replayed and held to the gates ...",
}


def command(
    folder: Path = typer.Argument(Path("rover-demo"), help="Folder to make; new or empty."),
    workers: int = Workers,
    sandbox: str = Sandbox,
    as_json: bool = Json,
) -> None:
    """Build, break and repair packages on files that ship with rover. Leaves a store to play with.

    Example: rover demo rover-demo
    """
    from rover.ops.demo import demo
    from rover.sandbox.registry import open_runtime

    def told(step: str, result: object) -> None:
        if as_json:
            return
        if result is None:
            print("\n" + wrapped(f"== {BEGIN[step]}"), flush=True)
        else:
            print(_RENDER[step](result), flush=True)

    report = demo(folder, open_runtime(sandbox or None), told=told, clock=now, workers=workers)
    if as_json:
        print_json(_json(report))
    else:
        print(_end(report))
    if not report.repair.promoted:
        raise typer.Exit(1)


def _build(report: Any) -> str:
    lines = [f"{len(report.rows)} attempts, {len(report.admitted)} admitted, one commit {report.commit[:12]}"]
    lines += [f"  dropped: {r.family}: {r.reason}" for r in report.rows if r.outcome == "dropped"]
    return "\n".join(lines)


def _list(packages: Any) -> str:
    rows = [(p.name, p.family, p.title) for p in packages]
    return table(rows, ("package", "family", "title"))


def _run(report: Any) -> str:
    passed = sum(r.outcome == "passed" for r in report.rows)
    return f"{len(report.rows)} rollouts, {passed} passed"


def _inject(done: Any) -> str:
    return f"\n== Breaking {done.package} in two places at once\n{wrapped(done.note)}\ncommit {done.commit[:12]}: Edit"


def _diagnose(found: Any) -> str:
    rows = [(f.kind, f.components[0], f.message) for f in found.findings if f.status == "confirmed"]
    return f"verdict: {found.verdict}\n" + table(rows, ("finding", "in", "what"))


def _repair(report: RepairReport) -> str:
    from rover.cli.repair import lattice

    return lattice(report.repair)


def _end(report: DemoReport) -> str:
    from rover.cli.stores import open_store_at

    repaired = report.repair.repair
    store = open_store_at(report.folder)
    log = [(e.id[:10], e.subject) for e in store.log(limit=5)]
    changed = store.diff("HEAD~1", "HEAD").packages
    diff = [f"  {p.name}: {c.name}: {f.path}" for p in changed for c in p.components for f in c.files]
    if report.repair.promoted and repaired.selected is not None:
        chosen = f"Selected: {repaired.reason}"
    else:
        chosen = f"Nothing was selected: {repaired.reason}"
    return "\n".join([
        "", "== History", table(log, ("commit", "subject")),
        "", "== What the repair changed", *diff,
        "", wrapped(f"== {chosen}"), "",
        f"The store is in {report.folder}. Try next:",
        f"  cd {report.folder}",
        f"  rover show {report.package}",
        f"  rover log --case {repaired.case}",
        "  rover undo",
    ])  # fmt: skip


def _json(report: DemoReport) -> dict[str, Any]:
    repaired = report.repair.repair
    return {
        "folder": str(report.folder),
        "attempts": len(report.build.rows),
        "admitted": [r.package for r in report.build.admitted],
        "package": report.package,
        "injected": report.injected.kind,
        "verdict": report.diagnosis.verdict,
        "selected": repaired.selected,
        "outcome": repaired.outcome,
        "case": repaired.case,
        "promoted": repaired.promoted,
    }


_RENDER: dict[str, Callable[[Any], str]] = {
    "build": _build,
    "list": _list,
    "run": _run,
    "inject": _inject,
    "diagnose": _diagnose,
    "repair": _repair,
}
