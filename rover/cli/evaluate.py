"""`rover eval`: measure a model or a policy on packages of a pinned revision."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rover.cli.output import (
    Json,
    Packages,
    Part,
    Sandbox,
    Server,
    Workers,
    counted,
    note,
    print_json,
    progress,
    say,
    table,
)
from rover.cli.run import policy_options
from rover.cli.stores import open_store
from rover.cli.training import need_extra, writable

if TYPE_CHECKING:
    from rover_train.evaluation import EvalRow, Evaluation


def command(
    model: str = typer.Option("", "--model", metavar="SPEC", help="A run (its best checkpoint), or any model."),
    policy: str = typer.Option("", "--policy", metavar="NAME", help="Instead: any policy; see `rover help policies`."),
    revision: str = typer.Option("", "--revision", metavar="REV", help="Revision with the packages; a split has one."),
    split: str = typer.Option("", "--split", metavar="FILE", help="Packages of this split, or of that run's."),
    part: str = typer.Option("", "--part", metavar="PART", help="train, validation or held-out (the default)."),
    pattern: str = typer.Option("", "--packages", metavar="GLOB", help="Instead of a split: a glob on names."),
    attempts: int = typer.Option(1, "-k", "--attempts", min=1, max=10_000, help="Rollouts of each package."),
    temperature: float = typer.Option(0.0, "--temperature", min=0.0, max=100.0, help="0 is greedy."),
    seed: int = typer.Option(1, "--seed", min=0, help="Seed of the rollouts, the same for every policy."),
    limit: int = Packages,
    shard: str | None = Part,
    server: str = Server,
    sets: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="One setting, as render.window=2048."),
    out: Path = typer.Option(None, "--out", metavar="FILE", help="Write the evaluation here, as JSON."),
    workers: int = Workers,
    sandbox: str = Sandbox,
    as_json: bool = Json,
) -> None:
    """Measure a model or a policy on packages of a pinned revision.

    A run is measured at its best checkpoint (RUN/checkpoints: at its newest), on the held-out part of its own split;
    what is found also goes to RUN/evaluations, where `rover compare` looks. pass@k: at least one of k rollouts
    passes; pass^k: all k do. Intervals are of 95 %, clustered by workspace. What ended in an infra_error or
    verifier_error is counted apart and leaves every rate. Rollouts are kept: a second call, or one after Ctrl-C,
    plays only what is missing. With --shard the rollouts of one part of the
    packages are played and kept, and no evaluation is made.

    Example: rover eval --model vtca -k 4 --temperature 1
    """
    from rover.ops.shard import Shard
    from rover.sandbox.registry import open_runtime
    from rover_train.examine import Question, examine, keep, run_of

    writable(out=out)
    if model:
        need_extra()
    spec, options = policy_options(policy, server, "", temperature, None) if policy else ("", {})
    question = Question(
        model=model, policy=spec, revision=revision, split=split, part=part, pattern=pattern, attempts=attempts,
        temperature=temperature, seed=seed, limit=limit, options=options, sets=tuple(sets),
        shard=Shard.parse(shard) if shard is not None else None,
    )  # fmt: skip
    store = open_store()
    with progress("rollouts") as bar:

        def told(row: EvalRow, done: int, total: int) -> None:
            bar(done, total, f"{row.package} {row.outcome}")

        found = examine(store, lambda: open_runtime(sandbox or None), question, workers=workers, told=told)
    if shard:  # what it played is evidence; the evaluation is that of the whole, made afterwards
        note(f"part {shard}: {counted(len(found.rows), 'rollout')} of it; without --shard the evidence of all is taken")
        return
    if out is not None:
        out.write_text(found.dump(), encoding="utf-8")
    run = run_of(model)
    kept = keep(found, run) if run is not None else None
    if as_json:
        print_json({**found.model_dump(mode="json"), "summary": found.summary()})
    else:
        _report(found)
    _notes(found, out or kept, greedy=bool(model) and attempts > 1 and temperature == 0)
    if not any(row.counts for row in found.rows):
        raise typer.Exit(3)


def _report(found: Evaluation) -> None:
    said = found.summary()
    part = f", part {found.part.replace('_', '-')}" if found.part else ""
    step = f" at step {found.step}" if found.step is not None else ""
    say(f"{found.of}{step} on {found.revision[:12]}{part}: {counted(said['packages'], 'package')} of "
        f"{counted(said['workspaces'], 'workspace')}, {counted(said['rollouts'], 'rollout')}")  # fmt: skip
    rows: list[tuple[object, ...]] = [("mean score", *_estimate(said["score"], 1))]
    for k in said["pass@"]:
        rows.append((f"pass@{k}", *_estimate(said["pass@"][k], 100)))
        if k != "1":
            rows.append((f"pass^{k}", *_estimate(said["pass^"][k], 100)))
    print(table(rows, ("measure", "value", "95 % interval", "packages"), right=(1, 2, 3)))
    cells = [(f"family {name}", *_group(some)) for name, some in said["families"].items()]
    cells += [(f"difficulty {name}", *_group(some)) for name, some in said["difficulties"].items()]
    say("")
    print(table(cells, ("packages", "n", "passed", "95 % interval", "score", "errors"), right=(1, 2, 3, 4, 5)))
    say("")
    cost = said["cost"]
    outcomes = ", ".join(f"{n} {what}" for what, n in said["outcomes"].items())
    per = "" if cost["tokens_per_pass"] is None else f", {cost['tokens_per_pass']:,.0f} for each that passed"
    say(f"outcomes: {outcomes}")
    took = "" if cost["seconds"] is None else f", {cost['seconds']:,.2f} s"
    tokens = f"{_number(cost['tokens'], 0)} tokens read and written{per}"
    say(f"a rollout: {_number(cost['turns'], 1)} turns{took}, {tokens}")


def _estimate(found: dict[str, Any], scale: float) -> tuple[str, str, object]:
    if found["value"] is None:
        return "", "", found["n"]
    form = "{:.1f} %" if scale == 100 else "{:.3f}"
    value = form.format(scale * found["value"])
    if found["low"] is None:
        return value, "(too few workspaces)", found["n"]
    low, high = (f"{scale * found[key]:.{1 if scale == 100 else 3}f}" for key in ("low", "high"))
    return value, f"{low} to {high}", found["n"]


def _group(some: dict[str, Any]) -> tuple[object, ...]:
    value, interval, _ = _estimate(some["success"], 100)
    score = some["score"]["value"]
    return some["packages"], value, interval, "" if score is None else f"{score:.3f}", some["errors"]


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _notes(found: Evaluation, place: Path | None, *, greedy: bool) -> None:
    errors = sum(not row.counts for row in found.rows)
    if greedy:
        note("greedy: all attempts of a package are the same rollout; --temperature 1 samples")
    if errors:
        note(f"{counted(errors, 'rollout')} ended in an error of the infrastructure or the verifier, and count nowhere")
    ran = len(found.rows) - found.reused
    note(f"{ran} run, {found.reused} reused from the evidence" + (f"; written to {place}" if place else ""))
