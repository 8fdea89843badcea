"""`rover evolve`: run, diagnose, repair, re-admit, and again."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rover.cli.output import Json, Sandbox, Seed, Workers, note, print_json, progress, say, table, wrapped
from rover.cli.stores import command_line, open_store

if TYPE_CHECKING:
    from rover.ops.evolve import EvolveReport
    from rover.ops.generations import Generation
    from rover.policy.protocol import Policy

#: policies that every repair replays anyway, or that stand for another one
_OURS = re.compile("(solver|null|replay)([:+]|$)")


def command(
    pattern: str = typer.Argument("*", metavar="[GLOB]", help="Which packages, by a glob on names."),
    generations: int = typer.Option(3, "--generations", min=1, max=100, help="At most so many."),
    policy: str = typer.Option("solver", "--policy", help="Who runs; see `rover help policies`."),
    attempts: int = typer.Option(1, "-k", "--attempts", min=1, max=1000, help="Rollouts of each package."),
    workers: int = Workers,
    seed: int = Seed,
    max_rollouts: int = typer.Option(None, "--max-rollouts", min=1, help="Stop once so many rollouts were run."),
    max_tokens: int = typer.Option(None, "--max-tokens", min=1, help="Stop once a model used so many tokens."),
    promote: bool = typer.Option(False, "--promote", help="Move the current branch to the last generation."),
    out: Path = typer.Option(None, "--out", metavar="DIR", help="Write evolve.json, evolve.svg and evolve.png there."),
    sandbox: str = Sandbox,
    as_json: bool = Json,
) -> None:
    """Run, diagnose, repair, re-admit, and again: packages that keep themselves working.

    Each generation is a branch, evolve/1 and so on, that begins where the one before ended, with one commit for each
    repair. Your own branch is not moved, unless --promote says so; `rover promote evolve/2` does it later. It stops
    where no trigger is left, where a generation changed nothing, where a bound is reached (asked before each package)
    or after so many generations. The same command goes on where it was interrupted. Read on with `rover help evolve`.

    Example: rover evolve 'my-*' --generations 2
    """
    from rover.ops.evolve import EvolveRequest, evolve
    from rover.sandbox.registry import open_runtime

    options = _options(policy)
    _writable(out)
    request = EvolveRequest(
        pattern, generations, policy, attempts, seed, max_rollouts, max_tokens, promote, options,
        _models(policy, options), command_line(),
    )  # fmt: skip
    with progress("evolve") as bar:
        report = evolve(
            open_store(),
            open_runtime(sandbox or None),
            request,
            workers=workers,
            tell=lambda number, what, done, total: bar(done, total, f"generation {number}: {what}"),
        )
    if out is not None:
        _write(report, out)
    if as_json:
        print_json(_json(report))
    else:
        _print(report)
    if promote and report.not_promoted not in ("", "nothing changed"):
        raise typer.Exit(1)


def _options(policy: str) -> dict[str, Any]:
    if not policy.startswith("openai:"):
        return {}
    return {"server": os.environ.get("OPENAI_BASE_URL", ""), "key": os.environ.get("OPENAI_API_KEY", "")}


def _models(policy: str, options: dict[str, Any]) -> list[Policy]:
    """What runs is replayed in repairs too, but solvers and attackers, which are there anyway."""
    from rover.policy.registry import get_policy

    return [] if _OURS.match(policy) else [get_policy(policy, **options)]


def _writable(out: Path | None) -> None:
    """A folder that cannot be made is told before hours of work; it is made at the end."""
    from rover_store.errors import UsageError

    if out is None:
        return
    there = next(p for p in (out.absolute(), *out.absolute().parents) if p.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise UsageError(f"--out {out}: {there} is not a folder that can be written to")


def _write(report: EvolveReport, out: Path) -> None:
    import json

    from rover.ops.evolve_picture import draw

    out.mkdir(parents=True, exist_ok=True)
    (out / "evolve.json").write_text(json.dumps(_json(report), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    made, missing = draw(report.run, out)
    note("wrote " + ", ".join(str(p) for p in (out / "evolve.json", *made)))
    if missing:
        note(missing)


def _json(report: EvolveReport) -> dict[str, Any]:
    run = report.run
    return {
        "run": run.id,
        "branch": run.branch,
        "start": run.start,
        "stopped": run.stopped,
        "resumed": report.resumed,
        "promoted": report.promoted or None,
        "rollouts_run": run.rollouts_run,
        "tokens": run.tokens,
        "unfit": run.unfit,
        "generations": [{**g.measures(), "srr_so_far": run.srr_so_far(g.number)} for g in run.generations],
    }


#: trig: packages triggered; res: resolved; chg: packages changed; runs: rollouts run + reused
_HEAD = ("gen", "branch", "trig", "res", "SRR", "audit", "success", "chg", "runs", "tokens")


def _print(report: EvolveReport) -> None:
    run = report.run
    print(table([_row(g) for g in run.generations], _HEAD, right=(0, 2, 3, 4, 5, 6, 7, 8, 9)))
    for generation in run.generations:
        for line in _changes(generation):
            print(line)
    if run.unfit:
        name, why = next(iter(run.unfit.items()))
        more = f" and {len(run.unfit) - 1} more" if len(run.unfit) > 1 else ""
        note(f"not run: {name}{more}: {why}")
    so_far = run.srr_so_far(len(run.generations))
    if so_far is not None:
        say(f"\nSRR so far {_rate(so_far)}: of all that were triggered, resolved and not triggered again")
    say(f"\nstopped: {run.stopped}" if so_far is None else f"stopped: {run.stopped}")
    last = next((g for g in reversed(run.generations) if g.head), None)
    if report.promoted:
        say(f"{run.branch} is at {report.promoted[:12]}")
    elif report.not_promoted:
        note(f"{run.branch} was not moved: {report.not_promoted}")
    elif last is not None and last.head != run.start:
        say(f"see it: rover diff {run.start[:12]} {last.branch} --stat")
        say(f"take it: rover promote {last.branch}")


def _row(now: Generation) -> tuple[object, ...]:
    return (
        now.number, now.branch, now.triggered, now.resolved, _rate(now.srr), _rate(now.audit_pass),
        f"{_rate(now.success_before)}>{_rate(now.success)}", len(now.changed),
        f"{now.rollouts_run}+{now.rollouts_reused}", now.tokens,
    )  # fmt: skip


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _changes(now: Generation) -> list[str]:
    lines = []
    for one in now.treated.values():
        if one.triggered:
            what = f"{one.edits} " if one.repaired else ""
            said = f"  {now.number}  {one.package}: {what}{'resolved' if one.resolved else one.outcome}"
            lines.append(wrapped(said if one.resolved else f"{said}; {one.reason}", "       "))
    return ["", "triggered", *lines] if lines else []
