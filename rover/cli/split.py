"""`rover split`: packages of a revision in train, validation and held-out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rover.cli.output import Json, Rev, Seed, Tags, counted, note, print_json, table
from rover.cli.stores import open_store

if TYPE_CHECKING:
    from rover_store.records import Split


def command(
    pattern: str = typer.Argument("*", metavar="GLOB", help="Which packages, by a glob on names."),
    tags: list[str] = Tags,
    shares: str = typer.Option("", "--shares", metavar="A,B,C", help="Shares of the three parts (0.8,0.1,0.1)."),
    train: list[str] = typer.Option([], "--train", metavar="GLOB", help="Instead of shares: what is trained on."),
    validation: list[str] = typer.Option([], "--validation", metavar="GLOB", help="And what chooses checkpoints."),
    held_out: list[str] = typer.Option([], "--held-out", metavar="GLOB", help="And what measures in the end."),
    seed: int = Seed,
    rev: str = Rev,
    out: Path = typer.Option(None, "--out", metavar="FILE", help="Write the split here, for train and eval."),
    as_json: bool = Json,
) -> None:
    """Split packages by workspace into train, validation and held-out.

    Training learns from the first part, its checkpoint is chosen on the second, and the third measures it. All
    packages of one workspace go to one part, and so do workspaces that share a resource: nothing of a held-out package
    was seen in training. The same revision, selection and seed give the same split.

    Example: rover split '*' --tag level:2 --shares 0.7,0.1,0.2 --out split.json
    """
    from rover_store.errors import UsageError
    from rover_train import split as splits

    store = open_store()
    if train or validation or held_out:
        if pattern != "*" or shares:
            raise UsageError("the parts are named by globs, so there is no glob over all and there are no shares")
        made = splits.by_globs(store, rev, train=train, validation=validation, held_out=held_out, tags=tags)
    else:
        asked = splits.parsed_shares(shares) if shares else splits.SHARES
        made = splits.make(store, rev, pattern=pattern, tags=tags, shares=asked, seed=seed)
    if out is not None:
        splits.write(made, out)
    _report(made, out, as_json)


def _report(made: Split, out: Path | None, as_json: bool) -> None:
    if as_json:
        print_json(made.model_dump(mode="json", exclude_none=True))
        return
    names = ("train", "validation", "held_out")
    cells = [
        (name.replace("_", "-"), len(part.packages), len(part.workspaces), " ".join(part.workspaces))
        for name, part in ((name, made.part(name)) for name in names)
    ]
    print(table(cells, ("part", "packages", "workspaces", "which"), right=(1, 2)))
    for group in made.merged:
        note(f"these share a resource and stay together: {' '.join(group)}")
    total = sum(len(made.part(name).packages) for name in names)
    note(f"{counted(total, 'package')} of {made.revision}" + (f"; written to {out}" if out else ""))
