"""`rover prune`: drop what rollouts did, keep what came of it."""

from __future__ import annotations

import typer

from rover.cli.gc import date
from rover.cli.output import Json, counted, note, print_json, progress, table
from rover.cli.sizes import size
from rover.cli.stores import open_store
from rover_store.errors import UsageError


def command(
    pattern: str = typer.Argument("*", metavar="[GLOB]", help="Names of packages."),
    trajectories: bool = typer.Option(False, "--trajectories", help="Drop turns and workspaces."),
    keep_verdicts: bool = typer.Option(True, "--keep-verdicts", help="Verdicts always stay; said for clarity."),
    policy: str = typer.Option("", "--policy", metavar="GLOB", help="Only rollouts of these policies."),
    before: str = typer.Option("", "--before", metavar="DATE", help="Only rollouts recorded before a date."),
    limit: int = typer.Option(20, "--limit", min=0, help="Lines of the table; 0 for all."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do it; without this, only say what would go."),
    as_json: bool = Json,
) -> None:
    """Drop the turns and workspaces of rollouts; their keys and verdicts stay. A dry run unless `--yes`.

    Scores stay comparable and nothing that was graded runs again. Grading with a new verifier needs the end state,
    so it runs the rollout again. `rover gc` gives the space back. Pruning cannot be undone.

    Example: rover prune --trajectories --before 2026-01-31
    """
    from rover.ops.care import prune

    if not trajectories:
        raise UsageError("say what to prune", hint="rover prune --trajectories")
    store = open_store()
    with progress("pruning") as bar:
        report = prune(
            store, pattern, policy=policy or None, before=date(before, "--before") if before else None,
            dry_run=not yes, progress=lambda what, done, total: bar(done, total or None, what),
        )  # fmt: skip
    if as_json:
        print_json({**report._asdict(), "parts": [p._asdict() for p in report.parts]})
        return
    if report.parts:
        shown = report.parts[: limit or None]
        rows = [(p.rollouts, p.turns, p.verdicts, p.package, p.policy) for p in shown]
        print(table(rows, ("rollouts", "turns", "verdicts kept", "package", "policy"), right=(0, 1, 2)))
        if more := len(report.parts) - len(shown):
            print(f"... and {more} more; --limit 0 shows all")
    done = "would be pruned" if report.dry_run else "pruned"
    print(f"{counted(len(report.rollouts), 'rollout')} {done}; `rover gc` then frees {size(report.size)}")
    if report.dry_run and report.rollouts:
        note("nothing was changed; with --yes it is done, and cannot be undone")
