"""`rover report`: a run's page."""

from __future__ import annotations

from pathlib import Path

import typer

from rover.cli.output import Json, print_json, say


def command(
    run: Path = typer.Argument(..., metavar="RUN", help="Folder of a run of `rover train`, finished or not."),
    out: Path = typer.Option(None, "--out", "-o", metavar="FILE", help="Where to write it; RUN/report.html if absent."),
    as_json: bool = Json,
) -> None:
    """Write a run's page: curves, scores, errors apart, config, and single rollouts turn by turn.

    For each turn of a rollout the page has its progress, credit, prerequisites and cost beside the text. It is one
    HTML file that loads nothing and runs no script. `rover train` writes it too when a run ends.

    Example: rover report vtca -o vtca.html
    """
    from rover_train import report

    place = report.write(run, out)
    if as_json:
        print_json({"page": str(place), "bytes": place.stat().st_size})
    else:
        say(f"{place}: {place.stat().st_size:,} bytes")
