"""`rover bench NAME`: measure, print a table, write JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rover.cli import bench_credit, bench_fcr
from rover.cli.output import Json, Seed, note, print_json, progress, table
from rover_store.errors import UsageError

if TYPE_CHECKING:
    from rover.bench.rows import Row

Measure = Callable[[Callable[[int, int], None]], "list[Row]"]

app = typer.Typer(
    help="Measure rover: tables and JSON.\n\nExample: rover bench cli",
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
)
Out = typer.Option(None, "--out", metavar="FILE", help="Also write the rows, with all samples, as JSON.")


@app.command("cli")
def cli(
    repeats: int = typer.Option(15, "--repeats", min=3, max=10_000, help="Runs of each command."),
    out: Path = Out,
    as_json: bool = Json,
) -> None:
    """Start-up of commands against `python -c 'import typer'`; a command in a living sandbox over the command itself.

    Example: rover bench cli --repeats 15 --out bench-cli.json
    """
    from rover.bench import sandbox, startup

    _report(
        "bench cli",
        [
            ("start-up", lambda tick: startup.measure(repeats, tick)),
            ("sandbox", lambda tick: sandbox.measure(4 * repeats, tick)),
        ],
        out,
        as_json,
    )


@app.command("run")
def run(
    repeats: int = typer.Option(20, "--repeats", min=3, max=10_000, help="Rollouts to time."),
    cases: int = typer.Option(200, "--cases", min=3, max=100_000, help="FCR cases, a third each with d = 2, 3 and 4."),
    seed: int = Seed,
    out: Path = Out,
    as_json: bool = Json,
) -> None:
    """A six-turn scripted rollout with grading, and FCR: lazy against exhaustive on seeded cases.

    Example: rover bench run --cases 200 --seed 1 --out bench-run.json
    """
    from rover.bench import lattices, rollouts

    _report(
        "bench run",
        [
            ("rollouts", lambda tick: rollouts.measure(repeats, tick)),
            ("fcr", lambda tick: lattices.measure(cases, seed, tick)),
        ],
        out,
        as_json,
    )


@app.command("engines")
def engines(
    kind: str = typer.Option("docker", "--sandbox", metavar="KIND", help="The kind of sandbox to measure."),
    repeats: int = typer.Option(30, "--repeats", min=3, max=10_000, help="Runs of a command; less of what is slow."),
    out: Path = Out,
    as_json: bool = Json,
) -> None:
    """One kind of sandbox: commands against `docker exec`, a rollout's own CPU, starts, snapshots, resets.

    Example: rover bench engines --sandbox docker --out bench-engines.json
    """
    from rover.bench import engines as parts
    from rover.sandbox.registry import open_runtime

    if kind == "auto":
        kind = open_runtime(kind).kind
    note(f"sandbox: {kind}")
    _report("bench engines", [(kind, lambda tick: parts.measure(kind, repeats, tick))], out, as_json)


app.command("fcr")(bench_fcr.command)
app.command("credit")(bench_credit.command)


@app.command("store")
def store(
    work: Path = typer.Option(
        Path("rover-bench"), "--work", metavar="DIR", help="Where suites are built, and found the next time."
    ),
    packages: int = typer.Option(10_000, "--packages", min=100, max=1_000_000, help="Packages of the import and log."),
    big: int = typer.Option(100_000, "--big", min=100, max=1_000_000, help="Packages of the big suite."),
    only: list[str] = typer.Option([], "--only", metavar="PART", help="Only these parts; again or with commas."),
    out: Path = Out,
    as_json: bool = Json,
) -> None:
    """The store against git and DVC: import, edit, log, graph, diff, writers, gc. The full size takes an hour.

    Example: rover bench store --packages 1000 --big 2000 --only edit,graph,gc
    """
    from rover.bench import store as parts

    chosen = parts.chosen(only)
    bench = parts.Bench(work.absolute(), parts.Scale(packages, big))
    parts.room(bench.work, bench.scale, chosen)
    named = [(n, lambda tick, n=n: parts.PARTS[n](bench, tick)) for n in chosen]
    _report("bench store", named, out, as_json)  # type: ignore[arg-type]


def _report(name: str, parts: list[tuple[str, Measure]], out: Path | None, as_json: bool) -> None:
    if out is not None and (out.is_dir() or not out.absolute().parent.is_dir()):
        raise UsageError(f"--out {out}: no file can be written there")
    rows: list[Row] = []
    for label, measure in parts:
        with progress(label) as bar:
            rows += measure(lambda done, total, bar=bar: bar(done, total))  # type: ignore[misc]
    value = {"bench": name, "rows": [r.to_json() for r in rows]}
    if out is not None:
        import json

        out.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
        note(f"wrote {out}")
    if as_json:
        print_json(value)
    else:
        cells = [(r.name, _digits(r.value), r.unit, _bar(r), r.note) for r in rows]
        print(table(cells, ("what", "value", "unit", "bar", "note"), right=(1,), whole=(0,)))
    if any(r.met is False for r in rows):
        raise typer.Exit(1)


def _digits(value: float) -> str:
    """Three digits that count, without an exponent."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _bar(row: Row) -> str:
    if row.bar is None:
        return ""
    sign = ">=" if row.at_least else "<="
    return f"{sign} {row.bar:g} {'met' if row.met else 'MISSED'}"
