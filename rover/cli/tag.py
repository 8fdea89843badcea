"""`rover tag`: list, make or delete tags."""

from __future__ import annotations

from dataclasses import asdict

import typer

from rover.cli.output import Json, print_json, say, table
from rover.cli.stores import command_line, open_store


def command(
    name: str = typer.Argument("", help="Tag to make; empty to list."),
    rev: str = typer.Argument("HEAD", help="What it names."),
    message: str = typer.Option("", "--message", "-m", help="Message of the tag."),
    delete: bool = typer.Option(False, "--delete", "-d", help="Delete it. Undo brings it back."),
    as_json: bool = Json,
) -> None:
    """List, make or delete tags.

    Example: rover tag v1 -m 'first release'
    """
    from rover.ops import refs

    store = open_store()
    if not name:
        found = refs.tags(store)
        if as_json:
            print_json([asdict(t) for t in found])
        else:
            print(table([(t.name, t.commit[:12]) for t in found], ("tag", "commit")))
        return
    if delete:
        done, verb = refs.delete_tag(store, name, command_line()), "deleted"
    else:
        done, verb = refs.make_tag(store, name, rev, message, command_line()), "made"
    print_json({"action": verb, **asdict(done)}) if as_json else say(f"{verb} {done.name} ({done.commit[:12]})")
