"""`rover new`: a package folder to fill in by hand."""

from __future__ import annotations

from pathlib import Path

import typer

from rover.cli.output import Json, print_json, say


def command(
    folder: Path = typer.Argument(..., help="Folder to write; its name becomes the package's."),
    name: str = typer.Option("", "--name", help="Another name for the package."),
    as_json: bool = Json,
) -> None:
    """Write a package folder to fill in: small and sound as it is, with a README that says what goes where.

    Example: rover new my-task
    """
    from rover.ops.new import new

    made = new(folder, name)
    if as_json:
        print_json({"folder": str(made.folder), "name": made.name, "files": made.files})
        return
    say(f"wrote {len(made.files)} files to {made.folder}; begin with {made.folder / 'README.md'}")
    say(f"next: `rover commit {made.folder}`, then `rover check {made.name}`")
