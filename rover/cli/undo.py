"""`rover undo`: take back an operation."""

from __future__ import annotations

import typer

from rover.cli.output import Json, note, print_json, say
from rover.cli.stores import open_store


def command(
    operation: str = typer.Argument("", help="Operation to take back, from `rover op log`; empty for the last."),
    as_json: bool = Json,
) -> None:
    """Take back the last operation, or the one named. Undo itself can be undone.

    What another git did since counts as an operation. Where a branch has moved
    since, nothing changes: `rover op restore` goes back past newer work.

    Example: rover undo
    """
    from rover.cli.op import moved
    from rover.ops.refs import undo

    done = undo(open_store(), operation or None)
    if as_json:
        print_json({"undone": done.id, "command": done.command, "moves": [m._asdict() for m in done.moves]})
        return
    say(f"undone: {done.summary}")
    for move in reversed(done.moves):
        say(f"  {moved(move.ref, move.old)}")
    if done.moves and all(move.ref.startswith("refs/remotes/") for move in done.moves):
        note("a remote is not changed by this: it keeps what it was given")
    note("`rover undo` again brings it back; further: `rover undo ID`, from `rover op log`")
