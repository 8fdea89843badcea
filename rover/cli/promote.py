"""`rover promote`: take or drop what a repair or an evolution left on a branch of its own."""

from __future__ import annotations

from dataclasses import asdict

import typer

from rover.cli.output import Json, note, print_json, say
from rover.cli.stores import command_line, open_store


def command(
    name: str = typer.Argument(..., metavar="CASE|BRANCH", help="A case under review, review/CASE or evolve/N."),
    drop: bool = typer.Option(False, "--drop", help="Delete the branch instead. The case stays readable."),
    as_json: bool = Json,
) -> None:
    """Move the current branch to the choice of a repair, or to a generation of an evolution.

    For what `rover repair --review` and `rover evolve` left on a branch. `rover explain CASE` says what it is,
    `rover diff HEAD review/CASE` shows it. If the current branch moved meanwhile, the choice is put on its new head
    where nothing changed that the case rests on, and refused where something did. `rover undo` takes it back.

    Example: rover promote my-task
    """
    from rover.ops.promote import promote

    done = promote(open_store(), name, drop=drop, command=command_line())
    if as_json:
        print_json(asdict(done))
        return
    if done.moved:
        note(f"{done.branch} had moved; nothing changed that the case rests on")
    if done.action == "promoted":
        say(f"promoted {done.case or name}: {done.branch} is at {done.commit[:12]}")
    else:
        say(f"dropped {done.branch} ({done.commit[:12]})")
