"""`rover pilot`: which tasks RL can learn from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rover.cli.output import (
    Json,
    Sandbox,
    Seed,
    Served,
    Server,
    Tags,
    Temperature,
    Workers,
    counted,
    note,
    print_json,
    progress,
    table,
)
from rover.cli.run import policy_options
from rover.cli.stores import open_store
from rover.cli.training import writable

if TYPE_CHECKING:
    from rover_store.records import Consistency, PilotedTask


def command(
    pattern: str = typer.Argument("*", metavar="GLOB", help="Which packages, by a glob on names."),
    policy: str = typer.Option("solver", "--policy", help="Who tries them, as hf:RUN; see `rover help policies`."),
    attempts: int = typer.Option(4, "-k", "--attempts", min=2, max=10_000, help="Rollouts of each package."),
    rev: str = typer.Option("HEAD", "--revision", "--rev", metavar="REV", help="Revision to read."),
    tags: list[str] = Tags,
    split: Path = typer.Option(None, "--split", metavar="FILE", help="Only the train part of this split."),
    out: Path = typer.Option(None, "--out", metavar="FILE", help="With --split: write the filtered split here."),
    report: Path = typer.Option(None, "--report", metavar="FILE", help="Write the whole report here, as JSON."),
    workers: int = Workers,
    seed: int = Seed,
    server: str = Server,
    model: str = Served,
    temperature: float = Temperature,
    sandbox: str = Sandbox,
    as_json: bool = Json,
) -> None:
    """Try tasks before RL, and keep those it can learn from.

    A few rollouts of each package by a policy. A task is kept where its grading is consistent (no crash of the
    verifier; the same end state gets the same scores at another time) and where the reward varies. With --split and
    --out, the split is written again with those tasks alone in its train part. What ran before is not run again.

    Example: rover pilot --policy hf:sft -k 8 --split split.json --out rl.json
    """
    from rover.sandbox.registry import open_runtime
    from rover_store.errors import UsageError
    from rover_train import split as splits
    from rover_train.dataset import consistency as pilots

    if (out is None) != (split is None):
        raise UsageError("--split names a split to read, --out where it is written, filtered: give both or none")
    writable(out=out, report=report)
    spec, options = policy_options(policy, server, model, temperature, None)
    store = open_store()
    commit = store.resolve(rev)
    names = splits.names_of(store, commit, pattern, tags, split, "train")
    with progress("tasks") as bar:

        def told(task: PilotedTask, done: int, total: int) -> None:
            bar(done, total, f"{task.package} {task.reason or 'kept'}")

        found = pilots.consistency(
            store, open_runtime(sandbox or None), commit, names, pilots.named(store, spec, options), said=spec,
            settings=pilots.ConsistencySettings(attempts=attempts), seed=seed, workers=workers, told=told,
        )  # fmt: skip
    if report is not None:
        splits.save(report, found.dump())
    _report(found, as_json)
    if split is not None and out is not None:
        splits.write(pilots.filtered(splits.load(split), found), out)


def _report(found: Consistency, as_json: bool) -> None:
    from rover_train.dataset.consistency import REASONS

    if as_json:
        print_json(found.model_dump(mode="json", exclude_none=True))
        return
    cells = [
        (t.package, f"{t.passed}/{t.rollouts}", t.mean, t.spread, "kept" if t.kept else t.reason) for t in found.tasks
    ]
    print(table(cells, ("package", "passed", "mean", "spread", "result"), right=(1, 2, 3)))
    for reason, words in REASONS.items():
        count = sum(task.reason == reason for task in found.tasks)
        if count:
            note(f"left out: {counted(count, 'task')} {reason} ({words})")
    note(f"{len(found.kept)} of {counted(len(found.tasks), 'task')} kept")
