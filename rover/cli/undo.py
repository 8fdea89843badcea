"""`rover undo`: take back an operation."""

from __future__ import annotations

import typer

from rover.cli.output import Json, note, print_json
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
        kind, name = _named(move.ref)
        print(f"  {kind}{name} is {f'back at {move.old[:12]}' if move.old else 'gone'}")
    note("`rover undo` again brings it back; further: `rover undo ID`, from `rover op log`")


def _named(ref: str) -> tuple[str, str]:
    """A ref as people call it: `main`, `tag v1`, `case one-1`."""
    for prefix, kind in (("refs/heads/", ""), ("refs/tags/", "tag "), ("refs/rover/cases/", "case ")):
        if ref.startswith(prefix):
            return kind, ref.removeprefix(prefix)
    return "", ref
