"""`rover commit`: take a package folder into the store."""

from __future__ import annotations

from pathlib import Path

import typer

from rover.cli.output import Json, note, print_json, say
from rover.cli.stores import command_line, open_store


def command(
    folder: Path = typer.Argument(..., help="A package folder, as `rover new` and `rover checkout` write it."),
    message: str = typer.Option("", "--message", "-m", help="Message of the commit."),
    fresh: bool = typer.Option(False, "--fresh", help="Unchanged components fit the changed ones: none stays stale."),
    force: bool = typer.Option(False, "--force", help="The folder as it is, over what the store has meanwhile."),
    large: bool = typer.Option(False, "--large", help="Take files above 256 MiB, and more than 1 GiB in all."),
    as_json: bool = Json,
) -> None:
    """Take a package folder into the store as one commit. Bad input changes nothing.

    What the store has changed since the checkout is merged; where both changed one
    thing, nothing is taken.

    Example: rover commit my-task -m 'A first task'
    """
    from rover.ops.undeclared import undeclared
    from rover.rollout.job import check_harness
    from rover_store.folders.folder import LARGE, LIMITS, commit_folder

    store = open_store()
    done = commit_folder(
        store, folder, message, command=command_line(), fresh=fresh, force=force,
        limits=LARGE if large else LIMITS, check=check_harness,
    )  # fmt: skip
    if as_json:
        print_json(done._asdict())
        return
    for path in done.skipped:
        note(f"left out: {path}")
    if done.merged:
        note(f"merged: the store has newer {' and '.join(done.merged)}; `rover checkout` renews the folder")
    if not done.changed:
        say(f"{done.package}: nothing changed; still at {done.commit[:12] or 'no commit'}")
    else:
        say(f"{done.package}: committed {done.commit[:12]} ({', '.join(done.changed)})")
    if "context" in done.changed and (forgotten := undeclared(store, done.package)):
        more = f" and {len(forgotten) - 3} more" if len(forgotten) > 3 else ""
        note(f"context.json says nothing of {', '.join(forgotten[:3])}{more}: access, role and meaning are unknown")
