"""`rover world`: a small world to train in, made from a seed."""

from __future__ import annotations

from pathlib import Path

import typer

from rover.cli.output import Seed, counted, progress, say
from rover_store.errors import UsageError


def command(
    folder: Path | None = typer.Argument(None, metavar="DIR", help="Where workspaces are written, a folder each."),
    workspaces: int = typer.Option(40, "--workspaces", metavar="N", min=1, max=9999, help="How many."),
    model: Path | None = typer.Option(None, "--model", metavar="FOLDER", help="Also make a small model there."),
    steps: int = typer.Option(900, "--steps", min=0, help="Steps of its pretraining on drills; 0 for none."),
    seed: int = Seed,
) -> int:
    """Make a small world to train in: workspaces of CSV files, and a model from a config.

    DIR gets N folders of small tables, for `rover build --from DIR --each --family chores`. The model has 1.6 million
    parameters and a tokenizer trained on what tools and policies say; it is pretrained on drills (reading, copying,
    looking up and editing made-up tables, no package among them). Train it as `small:FOLDER`. Equal seeds give equal
    files.

    Example: rover world world --workspaces 40 --model base --seed 1
    """
    if folder is None and model is None:
        raise UsageError("nothing to make", hint="name a folder for workspaces, --model FOLDER, or both")
    if folder is not None:
        from rover_train.world.workspaces import write

        made = write(folder, workspaces, seed)
        say(f"{folder}: {counted(len(made), 'workspace')}")
    if model is not None:
        from rover_train.extra import needed

        needed()
        from rover_train.world.pretrain import pretrain

        with progress("step", steps) as bar:

            def told(step: int, total: int, loss: float) -> None:
                bar(step, total, f"loss {loss:.3f}")

            facts = pretrain(model, seed, steps=steps, told=told)
        say(
            f"{model}: {facts['parameters'] / 1e6:.1f} million parameters, {facts['vocabulary']} tokens, "
            f"pretrained on {facts['tokens']} tokens in {facts['seconds']} s, loss {facts['loss']}"
        )
    return 0
