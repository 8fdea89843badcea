"""`rover diagnose`: tell an environment defect from an agent's mistake."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import typer

from rover.cli.output import Json, Rev, Sandbox, Seed, Workers, note, print_json, progress, say, table, width
from rover.cli.stores import open_store

if TYPE_CHECKING:
    from rover_store.records import Diagnosis, Finding

#: verdict -> exit code: findings 1, infrastructure 3, else 0
_EXIT = {"environment": 1, "undecided": 1, "infrastructure": 3}


def command(
    package: str = typer.Argument(..., metavar="PACKAGE", help="The package to examine."),
    rev: str = Rev,
    seed: int = Seed,
    workers: int = Workers,
    explain: bool = typer.Option(False, "--explain", help="Also print evidence, details and mere hypotheses."),
    sandbox: str = Sandbox,
    as_json: bool = Json,
) -> None:
    """Tell an environment defect from an agent's mistake.

    Probes solve the task again, derive its answers again, try the verifier on right and wrong work, and read
    request, contract, tools and files side by side. Recorded rollouts of this very version are weighed with them.
    A defect of the environment ends with exit code 1, a sound package and an agent's mistake with 0.

    Example: rover diagnose my-task --explain
    """
    from rover.ops.diagnose import diagnose_package
    from rover.sandbox.registry import open_runtime

    store = open_store()
    with progress("probes") as bar:
        count = 0

        def told(name: str) -> None:
            nonlocal count
            count += 1
            bar(count, 0, name)

        found = diagnose_package(
            store, open_runtime(sandbox or None), package, rev=rev, seed=seed, workers=workers, progress=told
        )
    if as_json:
        print_json(found.model_dump(mode="json", exclude_none=True))
    else:
        _print(found, explain)
    note(f"{found.rollouts_run} rollouts run, {found.rollouts_reused} reused")
    if found.verdict in _EXIT:
        raise typer.Exit(_EXIT[found.verdict])


def _print(found: Diagnosis, explain: bool) -> None:
    say(f"{found.package}: {found.verdict}")
    print(textwrap.fill(found.summary, width(), break_long_words=False))
    shown = [f for f in found.findings if explain or f.status == "confirmed"]
    if shown:
        print()
        print(table([_row(f) for f in shown], ("finding", "in", "probe", "what")))
    if explain:
        for finding in shown:
            say(f"\n{finding.kind} ({finding.status}), suspects {', '.join(finding.components)}")
            print(textwrap.indent(textwrap.fill(finding.message, width() - 2, break_long_words=False), "  "))
            for item in finding.evidence:
                say(f"  evidence  {item}")
    say(f"\nnext: {_next(found)}")


def _row(finding: Finding) -> tuple[str, str, str, str]:
    kind = finding.kind if finding.status == "confirmed" else f"({finding.kind})"
    return kind, finding.components[0], finding.probe, finding.message


def _next(found: Diagnosis) -> str:
    if found.verdict == "environment":
        return f"rover repair {found.package} --fcr"
    if found.verdict == "agent":
        return f"nothing in the package; look at the rollouts: rover run {found.package} --policy ..."
    if found.verdict == "undecided":
        return f"rover show {found.package}; then by hand: rover repair {found.package} --propose task=DIR"
    if found.verdict == "infrastructure":
        return "rover doctor"
    return f"nothing in the package; more rollouts: rover run {found.package} --policy ..."
