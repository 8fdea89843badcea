"""`rover pull`: fetch a remote and merge its branch into the current one."""

from __future__ import annotations

import typer

from rover.cli.output import Json, note, now, print_json, say
from rover.cli.stores import command_line, open_store


def command(
    remote: str = typer.Argument("", help="Remote, folder or URL; by default `origin`."),
    branch: str = typer.Argument("", help="Branch of the remote; by default the current one's name."),
    only_fetch: bool = typer.Option(False, "--fetch", help="Fetch as REMOTE/BRANCH and merge nothing."),
    with_evidence: bool = typer.Option(False, "--with-evidence", help="Take rollouts and verdicts as well."),
    with_sealed: bool = typer.Option(False, "--with-sealed", help="Take the sealed audits; from a folder only."),
    as_json: bool = Json,
) -> None:
    """Fetch a remote and merge its branch into the current one. Conflicts wait
    as after `rover merge` (exit code 1).

    Example: rover pull ../copy main
    """
    from rover.cli.merge import plain_result, print_result
    from rover.cli.sharing import moved, notes
    from rover_store.transfer.transfer import fetch, pull

    store = open_store()
    if only_fetch:
        fetched, merged = fetch(
            store, remote, evidence=with_evidence, sealed=with_sealed, command=command_line()
        ), None  # fmt: skip
    else:
        fetched, merged = pull(
            store, remote, branch, evidence=with_evidence, sealed=with_sealed, time=now(), command=command_line()
        )
    if as_json:
        print_json({
            "fetched": {**fetched._asdict(), "updates": [u._asdict() for u in fetched.updates]},
            "merged": plain_result(merged) if merged is not None else None,
        })  # fmt: skip
    else:
        say(f"fetched {fetched.url}" if fetched.updates else f"nothing new at {fetched.url}")
        for line in moved(fetched.updates):
            print(line)
        for line in notes(fetched):
            note(line)
        if merged is not None:
            print_result(merged)
    if merged is not None and merged.status == "conflicts":
        raise typer.Exit(1)
