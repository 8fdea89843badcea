"""`rover fsck`: check the store, and mend what is derived."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rover.cli.output import Json, counted, note, print_json, progress, table, wrapped
from rover.cli.stores import open_store

if TYPE_CHECKING:
    from rover_store.care.problems import Problem

_SEVERITIES = ("error", "warning", "info")


def command(
    quick: bool = typer.Option(False, "--quick", help="Connectivity alone: no blob is read, no record parsed."),
    dangling: bool = typer.Option(False, "--dangling", help="List unreachable objects too."),
    mend: bool = typer.Option(False, "--repair", help="Mend what is derived; bring objects back from good copies."),
    source: list[Path] = typer.Option([], "--from", metavar="DIR", help="A clone or store to take good copies from."),
    as_json: bool = Json,
) -> None:
    """Check objects, refs, records, edges, evidence and the index. Exit 1 with errors.

    Finds all that `git fsck --full --strict` finds, and what only a store can get wrong. `--repair` never touches
    truth: no ref moves, no record changes, damaged packs go to .rover/damaged.

    Example: rover fsck
    """
    from rover.ops import care

    repaired: list[dict[str, str]] = []
    with progress("checking") as bar:

        def tick(what: str, done: int, total: int) -> None:
            bar(done, total, what)

        if mend or source:
            report = care.mend(open_store(), tuple(source), tick)
            repaired = [r._asdict() for r in report.repaired]
            problems = report.left
        else:
            problems = care.check(open_store(), quick=quick, dangling=dangling, progress=tick)
    if as_json:
        found = [p._asdict() for p in problems]
        print_json({"problems": found, "repaired": repaired} if mend or source else found)
    else:
        _print(problems, repaired)
    if any(p.severity == "error" for p in problems):
        raise typer.Exit(1)


def _print(problems: tuple[Problem, ...], repaired: list[dict[str, str]]) -> None:
    for one in repaired:
        print(wrapped(f"repaired: {one['where']}: {one['what']}", "  "))
    if not problems:
        print("all is well")
        return
    rows = [(p.severity, p.where, p.what) for p in problems]
    print(table(rows, ("severity", "where", "what")))
    counts = [(s, sum(p.severity == s for p in problems)) for s in _SEVERITIES]
    note(", ".join(counted(n, s) for s, n in counts if n))
    for remedy in sorted({p.remedy for p in problems if p.severity != "info" and p.remedy})[:5]:
        note(f"hint: {remedy}")
