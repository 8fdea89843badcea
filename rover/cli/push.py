"""`rover push`: give a branch to a remote."""

from __future__ import annotations

import typer

from rover.cli.output import Json, note, print_json, say
from rover.cli.stores import command_line, open_store


def command(
    remote: str = typer.Argument("", help="Remote, folder or URL; by default `origin`."),
    branch: str = typer.Argument("", help="Branch to push; the current one by default."),
    tags: bool = typer.Option(False, "--tags", help="Push tags and releases as well."),
    with_evidence: bool = typer.Option(False, "--with-evidence", help="Push rollouts and verdicts as well."),
    with_sealed: bool = typer.Option(False, "--with-sealed", help="Push the sealed audits; into a folder only."),
    as_json: bool = Json,
) -> None:
    """Give a branch to a remote. A branch that has commits this store lacks is
    never overwritten: pull first. From a partial clone the changed packages are
    replayed on the whole branch.

    Example: rover push ../copy main --tags
    """
    from rover.cli.sharing import moved, notes
    from rover_store.transfer.transfer import push

    done = push(
        open_store(), remote, branch, tags=tags, evidence=with_evidence, sealed=with_sealed, command=command_line()
    )
    if as_json:
        print_json({**done._asdict(), "updates": [u._asdict() for u in done.updates]})
        return
    say(f"pushed to {done.url}" if done.pushed else f"{done.url} has everything already")
    for line in moved(done.updates):
        print(line)
    for line in notes(done):
        note(line)
