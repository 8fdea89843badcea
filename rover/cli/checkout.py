"""`rover checkout`: write a package out as a folder."""

from __future__ import annotations

from pathlib import Path

import typer

from rover.cli.output import Json, Rev, print_json, say
from rover.cli.stores import open_store


def command(
    name: str = typer.Argument(..., help="Package to write out."),
    folder: Path = typer.Argument(None, help="Folder to write, new or empty; by default the package's name."),
    rev: str = Rev,
    force: bool = typer.Option(False, "--force", help="Write it anew over a checkout; its own changes are lost."),
    as_json: bool = Json,
) -> None:
    """Write a package out as a folder, to read or to edit and commit again.

    The folder is new, empty, or a checkout without changes, which is renewed.

    Example: rover checkout my-task my-task-edited
    """
    target = folder or Path(name)
    entry = open_store().checkout(name, target, rev, force=force)
    if as_json:
        print_json({"package": entry.name, "tree": entry.tree, "folder": str(target)})
    else:
        say(f"wrote {entry.name} ({entry.tree[:12]}) to {target}")
