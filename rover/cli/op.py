"""`rover op log`: every move of a branch or tag, with the command that made it."""

from __future__ import annotations

import typer

from rover.cli.output import Json, print_json, table, utc
from rover.cli.stores import open_store

app = typer.Typer(
    help="Show the log of operations.\n\nExample: rover op log", rich_markup_mode=None, add_completion=False
)


@app.callback()
def group() -> None:
    """Show the log of operations.

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
        print_json([{**o._asdict(), "moves": [m._asdict() for m in o.moves], "details": dict(o.details)}
                    for o in operations])  # fmt: skip
        return
    rows = [
        (
            o.id[:10],
            utc(o.time),
            ", ".join(_move(m.ref, m.old, m.new) for m in o.moves),
            o.command,
        )
        for o in operations
    ]
    print(table(rows, ("operation", "time (UTC)", "moved", "command")))


def _move(ref: str, old: str | None, new: str | None) -> str:
    name = ref.removeprefix("refs/heads/").removeprefix("refs/tags/").removeprefix("refs/rover/")
    if old is None:
        return f"+{name}"
    return f"-{name}" if new is None else name
