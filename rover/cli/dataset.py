"""`rover dataset`: demonstrations of a pinned revision as a Hugging Face dataset folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rover.cli.output import Json, Tags, counted, note, print_json, progress, table
from rover.cli.stores import open_store

if TYPE_CHECKING:
    from rover_train.dataset.build import DatasetReport


def command(
    pattern: str = typer.Argument("*", metavar="GLOB", help="Which packages, by a glob on names."),
    out: Path = typer.Option(..., "--out", metavar="DIR", help="Folder to write; new or empty."),
    rev: str = typer.Option("HEAD", "--revision", "--rev", metavar="REV", help="Revision to read."),
    tags: list[str] = Tags,
    split: Path = typer.Option(None, "--split", metavar="FILE", help="Only packages of one part of this split."),
    part: str = typer.Option("train", "--part", help="Part of the split: train, validation or held-out."),
    from_evidence: bool = typer.Option(False, "--from-evidence", help="Take all recorded rollouts that passed."),
    policy: str = typer.Option("*", "--policy", metavar="GLOB", help="With --from-evidence: of these policies, by id."),
    everything: bool = typer.Option(False, "--all", help="Keep every verified demonstration: no curation."),
    sets: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="Change the curation, as several=2."),
    model: str = typer.Option("", "--model", metavar="SPEC", help="Also write token rows for this model, to DIR/rows."),
    window: int = typer.Option(4096, "--window", min=64, help="With --model: tokens of a row at most."),
    as_json: bool = Json,
) -> None:
    """Write the demonstrations of a revision as a Hugging Face dataset.

    Verified demonstrations of the present component versions become conversations (prompt, completion, tools), as
    trainers of other projects take them; with --model also token rows with a loss mask. What is stale or left out by
    the curation is counted, and report.json says why for each package.

    Example: rover dataset 'penguins-*' --revision main --out data
    """
    from rover_store.errors import UsageError
    from rover_train.dataset import build
    from rover_train.dataset.curate import settings_of
    from rover_train.dataset.folder import library
    from rover_train.split import names_of

    if everything and sets:
        raise UsageError("--all keeps everything, so there is no curation to change")
    if policy != "*" and not from_evidence:
        raise UsageError("--policy chooses among the rollouts of --from-evidence")
    library()
    store = open_store()
    commit = store.resolve(rev)
    with progress("packages") as bar:
        selection = build.Selection(
            store, commit, names_of(store, commit, pattern, tags, split, part), from_evidence=from_evidence,
            policy=policy, curation=None if everything else settings_of(sets), pattern=pattern, told=bar,
        )  # fmt: skip
        report = build.write(selection, out, system=_system(), renderer=_renderer(model, window))
    _report(report, out, as_json)


def _system() -> str:
    from rover.policy.openai import SYSTEM

    return SYSTEM


def _renderer(model: str, window: int) -> Any:
    if not model:
        return None
    from rover_train.extra import needed

    needed()
    from rover_train import models
    from rover_train.render.settings import RenderSettings

    return models.renderer_of(model, RenderSettings(window=window))


def _report(report: DatasetReport, out: Path, as_json: bool) -> None:
    from rover_train.dataset.curate import REASONS

    if as_json:
        print_json({**asdict(report), "without": report.without})
        return
    rows: list[tuple[str, int, str]] = [("kept", report.kept, "")]
    rows += [("stale", n, f"{component} is another version now") for component, n in report.stale_by.items()]
    rows += [("unverified", report.unverified, "no verdict that says passed")] if report.unverified else []
    rows += [("left out", n, REASONS[reason]) for reason, n in report.dropped.items()]
    rows += [("no token row", report.too_long, "a turn does not fit the window")] if report.too_long else []
    print(table(rows, ("demonstrations", "count", "why"), right=(1,)))
    if report.without:
        note(f"{report.without} of {counted(report.packages, 'package')} have none; report.json names them")
    tokens = f", {counted(report.rows, 'token row')}" if report.rows else ""
    note(f"{counted(report.kept, 'demonstration')}{tokens} of {report.revision} in {out}")
