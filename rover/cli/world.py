"""`rover world`: a small world to train in, made from a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from rover.cli.output import Json, Seed, counted, print_json, progress, say
from rover.cli.training import need_extra
from rover_store.errors import UsageError


def command(
    folder: Path | None = typer.Argument(None, metavar="DIR", help="Where workspaces are written, a folder each."),
    workspaces: int = typer.Option(40, "--workspaces", metavar="N", min=1, max=9999, help="How many."),
    model: Path | None = typer.Option(None, "--model", metavar="FOLDER", help="Also make a small model there."),
    steps: int = typer.Option(900, "--steps", min=0, help="Steps of its pretraining on drills; 0 for none."),
    seed: int = Seed,
    as_json: bool = Json,
) -> None:
    """Make a small world to train in: workspaces, and a small model.

    DIR gets N folders of small CSV files, for `rover build --from DIR --each --family chores`. The model has 1.7
    million parameters and a tokenizer trained on what tools and policies say; it is pretrained on drills (reading,
    copying, looking up and editing made-up tables, no package among them). Train it as `small:FOLDER`. Equal seeds
    give equal files. `rover help chores` tells more.

    Example: rover world world --workspaces 40 --model base --seed 1
    """
    from rover_train import places

    if folder is None and model is None:
        raise UsageError("nothing to make", hint="name a folder for workspaces, --model FOLDER, or both")
    if model is not None:
        need_extra()
        places.refuse(model)
        if model.exists() and (not model.is_dir() or any(model.iterdir())):
            raise UsageError(f"--model {model}: is there already")
    made: dict[str, Any] = {}
    if folder is not None:
        places.refuse(folder)
        from rover_train.world.workspaces import write

        made["workspaces"] = [str(path) for path in write(folder, workspaces, seed)]
        if not as_json:
            say(f"{folder}: {counted(workspaces, 'workspace')}")
    if model is not None:
        made["model"] = {"folder": str(model), **_model(model, seed, steps)}
        if not as_json:
            say(_told(model, made["model"]))
    if as_json:
        print_json(made)


def _model(folder: Path, seed: int, steps: int) -> dict[str, Any]:
    from rover_train.world.pretrain import pretrain

    with progress("step", steps) as bar:
        return pretrain(
            folder, seed, steps=steps, told=lambda step, total, loss: bar(step, total, f"loss {loss:.3f}")
        )


def _told(folder: Path, facts: dict[str, Any]) -> str:
    trained = f"pretrained on {facts['tokens']:,} tokens in {facts['seconds']} s of CPU, loss {facts['loss']}"
    size = f"{facts['parameters'] / 1e6:.1f} million parameters, {facts['vocabulary']} tokens"
    return f"{folder}: {size}, {trained if facts['steps'] else 'not trained'}"
