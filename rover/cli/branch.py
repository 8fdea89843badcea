"""`rover branch`: list, make, move to or delete branches."""

from __future__ import annotations

from dataclasses import asdict

import typer

from rover.cli.output import Json, print_json, say, table
from rover.cli.stores import command_line, open_store
from rover_store.errors import UsageError


def command(
    name: str = typer.Argument("", help="Branch to make; empty to list."),
    rev: str = typer.Argument("HEAD", help="Where the new branch begins."),
    switch: bool = typer.Option(False, "--switch", "-s", help="Make it the current branch; make it if need be."),
    delete: bool = typer.Option(False, "--delete", "-d", help="Delete it. Undo brings it back."),
    as_json: bool = Json,
) -> None:
    """List, make, move to or delete branches.

    Example: rover branch trial --switch
    """
    from rover.ops import refs

    store = open_store()
    if not name:
        if switch or delete:
            raise UsageError("name the branch", hint="rover branch NAME --switch")
        found = refs.branches(store)
        if as_json:
            print_json([asdict(b) for b in found])
        else:
            print(table([("*" if b.current else "", b.name, b.commit[:12]) for b in found], ("", "branch", "commit")))
        return
    if delete:
        if switch:
            raise UsageError("--switch and --delete exclude each other")
        done, verb = refs.delete_branch(store, name, command_line()), "deleted"
    elif switch:
        if name not in store.branches():
            refs.make_branch(store, name, rev, command_line())
        done, verb = refs.switch(store, name, command_line()), "now on"
    else:
        done, verb = refs.make_branch(store, name, rev, command_line()), "made"
    print_json({"action": verb, **asdict(done)}) if as_json else say(f"{verb} {done.name} ({done.commit[:12]})")
