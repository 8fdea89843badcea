"""`rover clone`: make a store from another one, or from any git repository that holds one."""

from __future__ import annotations

from pathlib import Path

import typer

from rover.cli.output import Json, counted, note, now, print_json, say
from rover.cli.stores import command_line


def command(
    source: str = typer.Argument(..., metavar="URL|FOLDER", help="A project folder with a store, or a git URL."),
    folder: Path = typer.Argument(..., help="Project folder to make the store in."),
    package: list[str] = typer.Option([], "--package", "-p", metavar="GLOB", help="Only these packages; repeatable."),
    branch: str = typer.Option("", "--branch", "-b", help="Branch to be on; the source's own by default."),
    with_evidence: bool = typer.Option(False, "--with-evidence", help="Take rollouts and verdicts as well."),
    with_sealed: bool = typer.Option(False, "--with-sealed", help="Take the sealed audits; from a folder only."),
    as_json: bool = Json,
) -> None:
    """Make a store from another one: branches, tags and releases. Repair cases
    and the operation log stay where they are. With --package the clone holds
    those packages and what they need, as a history of its own.

    Example: rover clone . ../copy
    """
    from rover.cli.sharing import notes
    from rover_store.transfer.remotes import without_secrets
    from rover_store.transfer.transfer import clone

    done = clone(
        source, folder, packages=tuple(package), branch=branch, evidence=with_evidence, sealed=with_sealed,
        clock=now, command=without_secrets(command_line()),
    )  # fmt: skip
    if as_json:
        updates = [u._asdict() for u in done.fetched.updates]
        fetched = {**done.fetched._asdict(), "updates": updates}
        print_json({**done._asdict(), "root": str(done.root), "fetched": fetched})
        return
    at = f"{done.branch} at {done.commit[:12]}" if done.commit else "empty"
    say(f"cloned {done.fetched.url}\n  to {done.root}\n  {at}, {counted(done.packages, 'package')}")
    for line in notes(done.fetched):
        note(line)
