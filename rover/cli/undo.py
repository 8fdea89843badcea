"""`rover undo`: take back an operation."""

from __future__ import annotations

import typer

from rover.cli.output import Json, print_json
from rover.cli.stores import open_store


def command(
    operation: str = typer.Argument("", help="Operation to take back, from `rover op log`; empty for the last."),
    as_json: bool = Json,
) -> None:
    """Take back the last operation, or the one named. Undo itself can be undone.

    Example: rover undo
    """
    from rover.ops.refs import undo

    done = undo(open_store(), operation or None)
    if as_json:
        print_json({"undone": done.id, "command": done.command, "moves": [m._asdict() for m in done.moves]})
        return
    print(f"undone: {done.command}")
    for move in done.moves:
        name = move.ref.removeprefix("refs/heads/")
        print(f"  {name} is back at {move.old[:12] if move.old else 'nothing'}")
