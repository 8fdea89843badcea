"""`rover import`: other tools' tasks and rollouts into the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rover.cli.output import Json, Sandbox, confirm, counted, note, now, print_json, progress, say, table
from rover.cli.stores import command_line, open_store

if TYPE_CHECKING:
    from rover.ops.import_ import ImportReport


#: outcomes of rollouts that were played again
PLAYED = ("recorded", "held", "differs", "read")


#: a note that is about more packages than these says how many
MOST_NAMES = 3


def command(
    kind: str = typer.Argument(..., metavar="KIND", help="Format: harbor, atif, or an installed one."),
    path: Path = typer.Argument(..., metavar="PATH", help="What to import: a folder, a file or an archive."),
    only: str = typer.Option("*", "--only", metavar="GLOB", help="Only tasks whose name there matches."),
    limit: int = typer.Option(0, "--limit", min=0, help="At most so many; 0 for all."),
    sets: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="An option of the format; repeatable."),
    package: str = typer.Option("", "--package", metavar="NAME", help="With atif: what a foreign trajectory ran on."),
    sandbox: str = Sandbox,
    keep_going: bool = typer.Option(False, "--keep-going", help="Name what is refused, and take the others."),
    yes: bool = typer.Option(False, "-y", "--yes", help="Replace packages of the same name without asking."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Read and report; change nothing."),
    as_json: bool = Json,
) -> int:
    """Import tasks of another format as packages, in one commit.

    `rover import harbor PATH` takes a task folder, a folder of tasks, a dataset, or an archive of them. Nothing of a
    task is run. One that is refused ends the import, and nothing is changed; --keep-going takes the others.
    What cannot run here is imported all the same, with the reason.

    `rover import atif PATH` makes the calls of recorded trajectories again, in the sandbox, and compares: one of
    rover's becomes the same rollout; one of another tool's is played on the package that --package names.

    Example: rover import harbor examples/harbor/hello --dry-run
    """
    from rover.ops.import_ import ImportRequest, import_
    from rover.port.protocol import Wanted
    from rover.sandbox.registry import open_runtime

    store = open_store()
    options = options_of(sets) | ({"package": package} if package else {})
    wanted = Wanted(only, limit, options)

    def replace(names: tuple[str, ...]) -> bool:
        return confirm(f"replace {counted(len(names), 'package')}, as {names[0]}?", yes=yes)

    with progress("read") as bar:
        request = ImportRequest(kind, path, wanted, keep_going, dry_run)
        report = import_(
            store, request, told=lambda name, done: bar(done, None, name), replace=replace, command=command_line(),
            time=now(), runtime=lambda: open_runtime(sandbox or None),
        )  # fmt: skip
    _print(report, as_json)
    return 1 if report.count("refused") or report.count("differs") else 0


def options_of(sets: Iterable[str]) -> dict[str, str]:
    """KEY=VALUE words as a mapping."""
    from rover_store.errors import UsageError

    out = {}
    for word in sets:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise UsageError(f"--set {word}: is not KEY=VALUE")
        out[key] = value
    return out


def _beyond(needs: tuple[str, ...]) -> str:
    """Needs, but for a working folder at its own path: every sandbox gives that."""
    return "; ".join(need for need in needs if not need.startswith("workdir"))


def _print(report: ImportReport, as_json: bool) -> None:
    if as_json:
        print_json(asdict(report))
        return
    if any(row.outcome in PLAYED for row in report.rows):
        _played(report)
        return
    print(table([(r.name or r.source, r.outcome, r.line() or _beyond(r.needs)) for r in report.rows],
                ("package", "outcome", "what it needs beyond a plain sandbox, or why not"), whole=(0,)))  # fmt: skip
    said: dict[str, list[str]] = {}
    for row in report.rows:
        for line in (*(f"unknown key, kept: {key}" for key in row.unknown), *row.notes):
            said.setdefault(line, []).append(row.name or row.source)
    for line, names in said.items():
        note(f"{', '.join(names) if len(names) <= MOST_NAMES else counted(len(names), 'package')}: {line}")
    taken = report.count("added") + report.count("replaced")
    if report.dry_run:
        say(f"\nnothing is changed: {counted(taken, 'package')} would be imported")
    elif report.commit:
        say(f"\ncommitted {report.commit[:12]}: {counted(taken, 'package')} from {report.kind}")
    else:
        say("\nnothing is new; nothing is committed")


def _played(report: ImportReport) -> None:
    """Rollouts, one row each."""
    print(table([(r.source, r.name, r.outcome, r.rollout[:10], r.line()) for r in report.rows],
                ("file", "package", "outcome", "rollout", "verdict, or why"), whole=(3,)))  # fmt: skip
    for row in report.rows:
        for line in row.notes:
            note(f"{row.source}: {line}")
    count = report.count
    if report.dry_run:
        say(f"\nnothing is changed: {counted(count('read'), 'rollout')} can be read")
    else:
        words = [f"{count(outcome)} {outcome}" for outcome in ("held", "differs", "refused") if count(outcome)]
        say(f"\n{', '.join([counted(count('recorded'), 'rollout') + ' recorded', *words])}")
