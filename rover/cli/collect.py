"""`rover collect`: gather demonstrations by a policy."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from rover.cli.output import (
    Json,
    Packages,
    Rev,
    Sandbox,
    Seed,
    Served,
    Server,
    Temperature,
    Workers,
    counted,
    note,
    print_json,
    progress,
    say,
    table,
)
from rover.cli.run import policy_options
from rover.cli.stores import command_line, open_store

if TYPE_CHECKING:
    from rover.ops.collect import CollectReport
    from rover.ops.run import Ran


def command(
    pattern: str = typer.Argument(..., metavar="GLOB", help="Which packages, by a glob on names."),
    policy: str = typer.Option("solver", "--policy", help="Who demonstrates; see `rover help policies`."),
    attempts: int = typer.Option(1, "-k", "--attempts", min=1, max=10_000, help="Rollouts of each package."),
    keep: int = typer.Option(4, "--keep", metavar="N", min=1, max=10_000, help="At most so many in a package."),
    workers: int = Workers,
    seed: int = Seed,
    rev: str = Rev,
    limit: int = Packages,
    server: str = Server,
    model: str = Served,
    temperature: float = Temperature,
    sandbox: str = Sandbox,
    as_json: bool = Json,
) -> None:
    """Gather demonstrations: run a policy, keep what passes.

    The rollouts that the verifier passes go into the packages' demonstrations/, each with its verdict and the
    component versions it ran on: one commit, which changes no component and which `rover undo` takes back. What
    says the same as one that is there is not added. A second call adds to the first; `held` is what a package has
    then. How often the policy passed is counted beside them, also where it never did. Press Ctrl-C to stop: what
    ran is kept as evidence, and the same command goes on where it stopped.

    Example: rover collect 'penguins-*' --policy solver -k 2
    """
    from rover.ops.collect import collect
    from rover.ops.run import RunRequest
    from rover.sandbox.registry import open_runtime

    spec, options = policy_options(policy, server, model, temperature, None)
    request = RunRequest(pattern, spec, attempts, seed, rev, limit or None, options)
    store = open_store()
    with progress("rollouts") as bar:

        def told(row: Ran, count: int, total: int) -> None:
            bar(count, total, f"{row.package} {row.outcome}")

        try:
            report = collect(
                store, open_runtime(sandbox or None), request, keep=keep, workers=workers, command=command_line(),
                told=told,
            )  # fmt: skip
        except KeyboardInterrupt:
            bar.clear()
            note(f"nothing is committed; {counted(bar.done, 'rollout')} done, and the same command goes on from there")
            raise
    _report(report, as_json)
    if "infra_error" in report.dropped():
        raise typer.Exit(3)


def _report(report: CollectReport, as_json: bool) -> None:
    from rover.ops.collect import REASONS

    if as_json:
        print_json({**asdict(report), "kept": report.kept, "dropped": report.dropped()})
        return
    cells = [
        (r.package, f"{r.passed}/{r.attempts}", len(r.kept), r.held,
         ", ".join(f"{n} {why.replace('_', ' ')}" for why, n in r.dropped.items()))
        for r in report.rows
    ]  # fmt: skip
    print(table(cells, ("package", "passed", "kept", "held", "not kept"), right=(1, 2, 3)))
    for why, count in report.dropped().items():
        note(f"not kept: {count} {why.replace('_', ' ')} ({REASONS[why]})")
    done = sum(row.attempts for row in report.rows)
    note(f"{counted(done, 'rollout')}, {report.reused} reused; {counted(report.kept, 'demonstration')} kept")
    if report.commit:
        say(f"commit {report.commit[:12]}; next: rover dataset '*' --out data")
