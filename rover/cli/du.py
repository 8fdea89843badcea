"""`rover du`: who takes the space, by package or by evidence."""

from __future__ import annotations

import typer

from rover.cli.output import Json, Rev, note, print_json, progress, table
from rover.cli.sizes import size
from rover.cli.stores import open_store


def command(
    pattern: str = typer.Argument("*", metavar="[GLOB]", help="Names of packages."),
    rev: str = Rev,
    evidence: bool = typer.Option(False, "--evidence", help="Evidence by package and policy, instead of packages."),
    limit: int = typer.Option(0, "--limit", min=0, max=1_000_000, help="Only so many, the largest first."),
    as_json: bool = Json,
) -> None:
    """Say who takes the space. `own` would go with the package alone, `shared` is used by others too.

    Sizes are of what is stored, deflated; `size` is that of the files. A package counts with the resources that it is
    bound to.

    Example: rover du --limit 10
    """
    from rover.ops.care import usage_of_evidence, usage_of_packages

    store = open_store()
    with progress("measuring") as bar:

        def tick(what: str, done: int, total: int) -> None:
            bar(done, total, what)

        if evidence:
            rows = [row._asdict() for row in usage_of_evidence(store, pattern, tick)]
        else:
            rows = [row._asdict() for row in usage_of_packages(store, pattern, rev, tick)]
    if limit:
        rows = sorted(rows, key=lambda row: -(row["own"] + row["shared"]))[:limit]
    if as_json:
        print_json(rows)
        return
    if not rows:
        note("nothing is recorded" if evidence else "the store is empty")
        return
    names = [name for name in rows[0] if name != "pruned" or any(row["pruned"] for row in rows)]
    sizes = ("size", "own", "shared")
    cells = [[size(row[n]) if n in sizes else row[n] for n in names] for row in rows]
    first = 2 if evidence else 1
    order = [*names[first:], *names[:first]]
    lines = [[*row[first:], *row[:first]] for row in cells]
    print(table(lines, order, right=tuple(range(len(names) - first))))
