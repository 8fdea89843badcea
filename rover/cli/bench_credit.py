"""`rover bench credit`: schemes of credit against each other on a small world; tables, JSON, a picture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rover.cli.output import Json, Seed, note, print_json, progress, say, table, wrapped
from rover.cli.training import need_extra, writable
from rover_store.errors import UsageError

if TYPE_CHECKING:
    from rover_train.bench.plan import Plan


def command(
    work: Path = typer.Option(
        Path("rover-bench-credit"), "--work", metavar="DIR", help="Packages, runs and evaluations are kept here."
    ),
    quick: bool = typer.Option(False, "--quick", help="A small version: fewer packages, steps and seeds."),
    every: bool = typer.Option(False, "--all", help="All schemes, and the ablations of two of them."),
    only: list[str] = typer.Option([], "--method", metavar="NAME", help="These arms; repeatable, or with commas."),
    sets: list[str] = typer.Option([], "--tasks", metavar="NAME", help="dense or sparse; both where not said."),
    seeds: int = typer.Option(0, "--seeds", min=0, max=100, help="Runs of each arm; 0: 5, or 2 with --quick."),
    report: bool = typer.Option(False, "--report", help="Run nothing: show what is finished in the folder."),
    out: Path = typer.Option(None, "--out", metavar="FILE", help="Also write everything as JSON."),
    picture: Path = typer.Option(None, "--picture", metavar="FILE", help="Also draw the curves, as FILE.svg and .png."),
    workers: int = typer.Option(2, "-n", "--workers", min=1, max=64, help="Runs at the same time, a thread each."),
    seed: int = Seed,
    as_json: bool = Json,
) -> None:
    """Verifier-to-turn credit against episode-only credit, at equal tasks, seeds and rollouts.

    Builds a small world, gathers demonstrations, fine-tunes one checkpoint, and trains every arm from it: grpo,
    vtca-grpo, and vtca-even, the control that spreads the same progress evenly over the turns. Two task sets: dense,
    where every part counts, and sparse, where one wrong report makes the reward 0. The shared checkpoint is chosen on
    validation packages, runs are measured at their last step on held-out ones. Intervals draw seeds and workspaces.
    Every command of it stands below DIR/begun; what is finished is kept, and the same call goes on. In full it takes
    hours. The schemes: `rover help credit`.

    Example: rover bench credit --quick --work credit --out credit.json
    """
    need_extra()
    from rover_train.bench import credit

    writable(out=out, picture=picture)
    if picture is not None:
        _can_draw()
    plan = _plan(quick, every, only, sets, seeds, seed)
    if report:
        value = credit.found(work.absolute(), plan)
    else:
        with progress("comparison") as bar:
            value = credit.run(
                work.absolute(), plan, workers=workers, told=lambda what, done, total: bar(done, total, what)
            )
    _report(value, out, picture, as_json)


def _plan(quick: bool, every: bool, only: list[str], sets: list[str], seeds: int, seed: int) -> Plan:
    from rover_train.bench.plan import ARMS, FAMILIES, FULL, QUICK, THREE, Plan, chosen

    scale = QUICK if quick else FULL
    arms = chosen(only, tuple(ARMS), "arm") if only else (tuple(ARMS) if every else THREE)
    names = chosen(sets, tuple(FAMILIES), "task set") if sets else tuple(FAMILIES)
    return Plan(names, arms, tuple(range(1, 1 + (seeds or scale.seeds))), scale, seed)


def _can_draw() -> None:
    from rover.bench.pictures import available

    if not available():
        raise UsageError("pictures need matplotlib", hint="pip install 'workrover[report]'")


def _report(value: dict[str, Any], out: Path | None, picture: Path | None, as_json: bool) -> None:
    if out is not None:
        out.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
        note(f"wrote {out}")
    if picture is not None:
        from rover_train.bench.picture import draw

        bands = {n: {a: arm["band"] for a, arm in s["arms"].items()} for n, s in value["sets"].items()}
        for path in draw(bands, picture, label="success on validation packages, %"):
            note(f"wrote {path}")
    if as_json:
        print_json(value)
        return
    for name, found in value["sets"].items():
        _show(name, found)
    if value["missing"]:
        note(f"not finished: {', '.join(value['missing'])}")


def _show(name: str, found: Mapping[str, Any]) -> None:
    sft, arms = found["sft"], found["arms"]
    say(f"{name}: {found['packages']} held-out packages in {found['workspaces']} workspaces, success in %")
    rows: list[tuple[object, ...]] = [("sft", "", _percent(sft["greedy"]), _percent(sft["sampled"]), *[""] * 5)]
    for arm, of in arms.items():
        budget, why = of["budget"], of["why"]
        rows.append(
            (arm, len(of["seeds"]), _spread(of["greedy"]), _spread(of["sampled"]), _percent(of["area"]),
             round(budget["rollouts"]), _percent(why["tied_groups"]), _percent(why["credit_turns"]),
             _plain(of["seconds"].get("step")))
        )  # fmt: skip
    head = ("arm", "n", "greedy", "T = 1", "area", "rollouts", "tied", "credit", "s/step")
    print(table(rows, head, right=(1, 4, 5, 6, 7, 8), whole=(0,)))
    others = [o for o in ("sft", "grpo", "vtca-even") if o == "sft" or o in arms]
    rows = [(arm, *(_points(of["greedy"]["minus"].get(o)) for o in others)) for arm, of in arms.items()]
    print(table(rows, ("greedy, points", *(f"minus {o}" for o in others)), whole=(0,)))
    say(wrapped(
        "Mean over n seeds ± standard deviation. Area: below the curve of validation success, over its length. Tied: "
        "groups whose rewards are all equal. Credit: turns with credit of their own. Differences are paired by seed "
        "and package, with 95 % intervals."
    ))  # fmt: skip


def _percent(value: float | None) -> str:
    return "" if value is None or value != value else f"{100 * value:.1f}"


def _spread(of: Mapping[str, Any]) -> str:
    return _percent(of["mean"]) + ("" if of["sd"] is None else f" ± {100 * of['sd']:.1f}")


def _points(of: Mapping[str, Any] | None) -> str:
    if of is None:
        return ""
    return f"{100 * of['value']:+.1f} [{100 * of['low']:.1f}, {100 * of['high']:.1f}]"


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
