"""`rover op`: every move of a branch, tag or case with the command that made it, and the way back to any state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from rover.cli.output import Json, note, print_json, say, table, utc
from rover.cli.stores import open_store

if TYPE_CHECKING:
    from rover_store.oplog import Operation

app = typer.Typer(
    help="Show the log of operations, or go back to a state of it.\n\nExample: rover op log",
    rich_markup_mode=None,
    add_completion=False,
)


@app.callback()
def group() -> None:
    """Show the log of operations, or go back to a state of it.

    Example: rover op log
    """


@app.command("log")
def log(
    limit: int = typer.Option(20, "--limit", min=1, max=1_000_000, help="How many, the newest first."),
    as_json: bool = Json,
) -> None:
    """Show every move of a branch or tag, the newest first.

    Example: rover op log --limit 5
    """
    from rover.ops.refs import op_log

    operations = op_log(open_store(), limit)
    if as_json:
        print_json([_json(operation) for operation in operations])
        return
    rows = [
        (
            o.id[:10],
            utc(o.time),
            ", ".join(_move(m.ref, m.old, m.new) for m in o.moves),
            o.summary,
        )
        for o in operations
    ]
    print(table(rows, ("operation", "time (UTC)", "moved", "command")))


@app.command("show")
def show(
    operation: str = typer.Argument("@", help="Its id, the first digits, or @~N: N before the newest."),
    as_json: bool = Json,
) -> None:
    """Show one operation (the newest): its command, and each move in full.

    Example: rover op show @~1
    """
    from rover.ops.refs import op_show

    found = op_show(open_store(), operation)
    if as_json:
        print_json(_json(found))
        return
    say(f"operation {found.id}\ntime      {utc(found.time)}\ncommand   {found.summary}")
    for ref, old, new in found.moves:
        say(f"\n{ref}\n  from    {old or '(nothing)'}\n  to      {new or '(nothing)'}")


@app.command("restore")
def restore(
    operation: str = typer.Argument(..., help="Go back to what was after it: an id, or @~N."),
    as_json: bool = Json,
) -> None:
    """Set every branch, tag and case, and the current branch, to what they were.

    They become what they were right after the operation. This is an operation
    itself: nothing is lost, and `rover undo` takes it back.

    Example: rover op restore @~1
    """
    from rover.ops.refs import op_restore

    done, moves = op_restore(open_store(), operation)
    if as_json:
        print_json({"restored": done.id, "command": done.command, "moves": [m._asdict() for m in moves]})
        return
    if not moves:
        say(f"all is as it was after: {done.summary}")
        return
    say(f"as it was after: {done.summary}")
    for move in moves:
        say(f"  {moved(move.ref, move.new)}")
    note("`rover undo` takes this back")


_KINDS = {
    "refs/heads/": "", "refs/remotes/": "", "refs/tags/": "tag ", "refs/rover/cases/": "case ",
    "refs/rover/releases/": "release ", "refs/rover/merges/": "open merge into ",
}  # fmt: skip


def moved(ref: str, value: str | None) -> str:
    """Where a move led: `main is at 3f2a...`, `tag v1 is gone`."""
    name = ref
    for prefix, kind in _KINDS.items():
        if ref.startswith(prefix):
            name = kind + ref.removeprefix(prefix)
    if ref == "HEAD":
        return f"the current branch is {(value or '').removeprefix('refs/heads/')}"
    return f"{name} is {f'back at {value[:12]}' if value else 'gone'}"


def _json(operation: Operation) -> dict[str, Any]:
    moves = [move._asdict() for move in operation.moves]
    return {**operation._asdict(), "moves": moves, "details": dict(operation.details)}


def _move(ref: str, old: str | None, new: str | None) -> str:
    name = ref
    for folder in ("heads", "tags", "remotes", "rover"):
        name = name.removeprefix(f"refs/{folder}/")
    if old is None:
        return f"+{name}"
    return f"-{name}" if new is None else name
