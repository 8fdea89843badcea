"""`rover bisect`: the first bad commit between a good and a bad one, found by a command."""

from __future__ import annotations

import typer

from rover.cli.output import Json, counted, note, print_json, say, utc
from rover.cli.stores import open_store


def command(
    good: str = typer.Argument(..., help="A revision that is good."),
    bad: str = typer.Argument("HEAD", help="A later one that is bad."),
    run: str = typer.Option(..., "--run", metavar="CMD", help="Shell command; {rev} in it is the commit to try."),
    as_json: bool = Json,
) -> None:
    """Find the first bad commit on the line of first parents, by trying its middle.

    The command says 0 for good, 125 for untestable, another code below 126 for bad;
    any other ends the search. ROVER_STORE and ROVER_REV are set for it, and what it
    prints goes to stderr.

    Example: rover bisect HEAD~1 HEAD --run 'rover show {rev}:my-task/README.md'
    """
    from rover.ops.bisect import bisect

    found = bisect(
        open_store(), good, bad, run,
        lambda step: note(f"{step.commit[:10]}  {step.verdict:<4}  {counted(step.left, 'commit')} left"),
    )  # fmt: skip
    if as_json:
        print_json(found._asdict())
        return
    say(f"first bad commit {found.commit}")
    say(f"  {utc(found.time)}  {found.author.partition(' <')[0]}  {found.subject}")
    if found.skipped:
        say(f"  or one of the {len(found.skipped)} before it that could not be tested")
