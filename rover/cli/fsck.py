"""`rover fsck`: check the store."""

from __future__ import annotations

import typer

from rover.cli.output import Json, print_json, table
from rover.cli.stores import open_store


def command(as_json: bool = Json) -> None:
    """Check objects, refs, edges and the index. Exit 1 if anything is wrong.

    Example: rover fsck
    """
    problems = open_store().fsck()
    if as_json:
        print_json([p._asdict() for p in problems])
    elif problems:
        print(table([(p.where, p.what) for p in problems], ("where", "what")))
    else:
        print("all is well")
    if problems:
        raise typer.Exit(1)
