"""`rover export`: packages of a revision in another tool's format."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rover.cli.import_ import options_of
from rover.cli.output import Json, Packages, Rev, counted, note, print_json, progress, say, table
from rover.cli.stores import open_store

if TYPE_CHECKING:
    from rover.ops.export import ExportReport


def command(
    kind: str = typer.Argument(..., metavar="KIND", help="Format: harbor, verifiers, atif, hf, or an installed one."),
    pattern: str = typer.Argument("*", metavar="GLOB", help="Which packages, by a glob on names."),
    out: Path = typer.Option(..., "--out", metavar="DIR", help="Folder to write; new or empty."),
    rev: str = Rev,
    limit: int = Packages,
    sets: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="An option of the format; repeatable."),
    with_verifiers: bool = typer.Option(False, "--with-verifiers", help="With hf: verifiers too, so the answers."),
    as_json: bool = Json,
) -> int:
    """Export packages of a revision in another format, as a folder that appears whole or not at all.

    `rover export harbor` writes task folders and a dataset.toml: packages that came from Harbor as they came, others
    with their checks as a program of their own. `verifiers` is a taskset as a Python package, `hf` a folder for
    datasets, `atif` recorded rollouts (GLOB may be a rollout's id); `rover help exports` has their options. What the
    other format cannot say is named.

    Example: rover export harbor '*' --out tasks
    """
    from rover.ops.export import ExportRequest, export
    from rover.port.registry import exporter

    store = open_store()
    options = options_of(sets) | ({"verifiers": "yes"} if with_verifiers else {})
    request = ExportRequest(kind, out, pattern, rev, limit, options)
    with progress("package") as bar:
        report = export(store, request, told=lambda name, done, total: bar(done, total, name))
    _print(report, as_json)
    onward = getattr(exporter(kind), "onward", None)
    if onward is not None and report.written and not as_json and (text := onward(options, out)):
        note(text)
    return 0 if report.written else 1


def _print(report: ExportReport, as_json: bool) -> None:
    if as_json:
        print_json(asdict(report))
        return
    rows = [(row.name, row.path or "left out", "; ".join(row.notes)) for row in report.rows]
    print(table(rows, (report.noun, "written as", "what to know"), whole=(0,)))
    say(f"\n{counted(len(report.written), report.noun)} of {report.revision[:12]} in {report.out}")
    left = len(report.rows) - len(report.written)
    if left:
        note(f"{counted(left, report.noun)} left out")
