"""`rover build`: packages from a folder of real files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rover.cli.output import Json, Sandbox, Seed, Workers, counted, note, print_json, progress, say, table
from rover.cli.stores import command_line, open_store

if TYPE_CHECKING:
    from rover.ops.build import BuildReport, Row


def command(
    folder: Path = typer.Option(..., "--from", metavar="FOLDER", help="A folder of real files."),
    count: int = typer.Option(10, "--count", min=1, max=100_000, help="Attempts to make."),
    each: bool = typer.Option(False, "--each", help="Each folder in FOLDER is a workspace, with COUNT attempts."),
    seed: int = Seed,
    family: list[str] = typer.Option([], "--family", help="Only this family of tasks; may be repeated."),
    prefix: str = typer.Option("", "--prefix", metavar="NAME", help="Begin names so (default: the folder's name)."),
    license_: str = typer.Option("", "--license", metavar="TEXT", help="Licence of the files, for the provenance."),
    sandbox: str = Sandbox,
    workers: int = Workers,
    as_json: bool = Json,
) -> int:
    """Build packages from a folder of real files.

    Profiles csv, tsv, xlsx, json, jsonl, md and txt files, and makes COUNT attempts at a task: contract, answers
    by two engines, a reference by a solver that knows the request alone, calibration, one admission test. All
    packages that are admitted go into one commit. The same files and seed give the same packages.

    Example: rover build --from examples/workspaces/penguins/files --count 10 --seed 1
    """
    from rover.ops.build import BuildRequest, build
    from rover.sandbox.registry import open_runtime
    from rover_store.ids import check_name

    if prefix:
        check_name(f"{prefix}-x", "--prefix", "")
    request = BuildRequest(folder, count, seed, tuple(family), prefix, license_, each)
    store = open_store()
    runtime = open_runtime(sandbox or None)
    inside = sum(p.is_dir() for p in folder.iterdir()) if each and folder.is_dir() else 1
    with progress("attempt", count * inside) as bar:

        def told(row: Row, done: int, total: int) -> None:
            bar(done, total, f"{row.family}: {row.package or row.stage}")

        report = build(store, runtime, request, workers=workers, told=told, command=command_line())
    _print(report, as_json)
    return 0 if report.admitted else 1


def _print(report: BuildReport, as_json: bool) -> None:
    if as_json:
        print_json({**asdict(report), "admitted": [r.package for r in report.admitted]})
        return
    for path, reason in report.skipped:
        note(f"left out: {path}: {reason}")
    rows: list[tuple[object, ...]] = []
    for name in sorted({r.family for r in report.rows}):
        mine = [r for r in report.rows if r.family == name]
        stages = [f"{n} {stage}" for (f, stage), n in report.dropped().items() if f == name]
        admitted = sum(r.outcome == "admitted" for r in mine)
        rows.append((name, len(mine), admitted, len(mine) - admitted, ", ".join(stages)))
    total, good = len(report.rows), len(report.admitted)
    rows.append(("all", total, good, total - good, ""))
    print(table(rows, ("family", "attempted", "admitted", "dropped", "dropped by"), right=(1, 2, 3)))
    reasons: dict[tuple[str, str], int] = {}
    for row in report.rows:
        if row.outcome == "dropped":
            reasons[row.stage, row.reason] = reasons.get((row.stage, row.reason), 0) + 1
    if reasons:
        print()
        print(table([(n, s, r) for (s, r), n in sorted(reasons.items())], ("dropped", "stage", "reason"), right=(0,)))
    if report.commit:
        say(f"\ncommitted {report.commit[:12]}: {counted(good, 'package')} from {report.workspace}")
    else:
        print("\nnothing was admitted; nothing is committed")
    note(f"{report.rollouts_run} rollouts run, {report.rollouts_reused} reused")
