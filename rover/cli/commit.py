"""`rover commit`: take a package folder into the store."""

from __future__ import annotations

from pathlib import Path

import typer

from rover.cli.output import Json, note, print_json
from rover.cli.stores import command_line, open_store


def command(
    folder: Path = typer.Argument(..., help="A package folder, as `rover new` and `rover checkout` write it."),
    message: str = typer.Option("", "--message", "-m", help="Message of the commit."),
    fresh: bool = typer.Option(False, "--fresh", help="Unchanged components fit the changed ones: none stays stale."),
    as_json: bool = Json,
) -> None:
    """Take a package folder into the store as one commit. Bad input changes nothing.

    Example: rover commit my-task -m 'A first task'
    """
    done = open_store().commit_folder(folder, message, command=command_line(), fresh=fresh)
    if as_json:
        print_json(done._asdict())
        return
    for path in done.skipped:
        note(f"left out: {path}")
    if not done.changed:
        print(f"{done.package}: nothing changed; still at {done.commit[:12] or 'no commit'}")
    else:
        print(f"{done.package}: committed {done.commit[:12]} ({', '.join(done.changed)})")
