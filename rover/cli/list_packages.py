"""`rover list`: the packages of a revision."""

from __future__ import annotations

from dataclasses import asdict

import typer

from rover.cli.output import Json, Rev, counted, note, print_jsonl, table
from rover.cli.stores import open_store


def command(
    pattern: str = typer.Argument("*", help="Glob on names."),
    rev: str = Rev,
    limit: int = typer.Option(0, "--limit", min=0, help="At most so many; 0 for all."),
    names: bool = typer.Option(False, "--names", help="Names alone, one a line."),
    as_json: bool = Json,
) -> None:
    """List the packages of a revision, with their component versions.

    Example: rover list '*'
    """
    from rover.ops.listing import list_packages

    found = list_packages(open_store(), pattern, rev, limit or None)
    if as_json:
        print_jsonl(asdict(p) for p in found)
        return
    if names:
        for p in found:
            print(p.name)
        return
    if not found:
        note("no packages yet; begin with `rover build --from FOLDER` or `rover new DIR`")
        return
    rows = [
        (p.name, p.family, *(p.components.get(c, "")[:7] for c in ("context", "task", "harness", "verifier")),
         "yes" if p.admitted else "no")
        for p in found
    ]  # fmt: skip
    print(table(rows, ("package", "family", "C", "T", "H", "V", "adm."), whole=(1,)))
    note(counted(len(found), "package"))
