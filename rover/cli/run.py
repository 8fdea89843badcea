"""`rover run`: run a policy on packages and grade the rollouts."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rover.cli.output import (
    Json,
    Packages,
    Part,
    Rev,
    Sandbox,
    Seed,
    Served,
    Server,
    Temperature,
    Workers,
    counted,
    note,
    print_jsonl,
    progress,
    table,
)
from rover.cli.stores import open_store
from rover_store.errors import UsageError

if TYPE_CHECKING:
    from rover.ops.run import Ran


def command(
    pattern: str = typer.Argument(..., metavar="GLOB", help="Which packages, by a glob on names."),
    policy: str = typer.Option("solver", "--policy", help="Who acts; see `rover help policies`."),
    attempts: int = typer.Option(1, "-k", "--attempts", min=1, max=10_000, help="Rollouts of each package."),
    workers: int = Workers,
    seed: int = Seed,
    rev: str = Rev,
    limit: int = Packages,
    shard: str | None = Part,
    server: str = Server,
    model: str = Served,
    agent: Path = typer.Option(None, "--agent", metavar="DIR", help="Where a command policy's program is installed."),
    temperature: float = Temperature,
    record: Path = typer.Option(None, "--record", metavar="FILE", help="Add every request to a model to this file."),
    tokens: bool = typer.Option(False, "--tokens", help="Record token ids and log-probabilities of hf and openai."),
    sandbox: str = Sandbox,
    as_json: bool = Json,
) -> None:
    """Run a policy on packages and grade the rollouts.

    What was run before is not run again: the rows say so. Press Ctrl-C to stop; finished work is kept, and the
    same command goes on where it stopped.

    Example: rover run 'penguins-*' --policy solver -k 4 -n 2
    """
    from rover.ops.run import RunRequest, run
    from rover.ops.shard import Shard
    from rover.sandbox.registry import open_runtime

    spec, options = policy_options(policy, server, model, temperature, record, tokens, agent)
    part = Shard.parse(shard) if shard is not None else None
    request = RunRequest(pattern, spec, attempts, seed, rev, limit or None, options, shard=part)
    store = open_store()
    done: list[Ran] = []
    with progress("rollouts") as bar:

        def told(row: Ran, count: int, total: int) -> None:
            done.append(row)
            bar(count, total, f"{row.package} {row.outcome}")
            if as_json:
                print_jsonl([asdict(row)])

        try:
            report = run(store, open_runtime(sandbox or None), request, workers=workers, told=told)
        except KeyboardInterrupt:
            bar.clear()
            _report(sorted(done, key=lambda r: (r.package, r.attempt)), as_json)
            raise
    _report(report.rows, as_json)
    for line in report.notes:
        note(line)
    if any(row.outcome == "infra_error" for row in report.rows):
        raise typer.Exit(3)


def policy_options(
    policy: str,
    server: str,
    model: str,
    temperature: float,
    record: Path | None,
    tokens: bool = False,
    agent: Path | None = None,
) -> tuple[str, dict[str, Any]]:
    """The spec, and the options that only a model policy takes."""
    kind, _, name = policy.partition(":")
    if kind == "hf":
        chosen: dict[str, Any] = {"temperature": temperature} if temperature >= 0 else {}
        return policy, chosen | ({"tokens": True} if tokens else {})
    if agent is not None and kind != "command":
        raise UsageError(f"--agent: {kind} is no program that is installed somewhere", hint="policy command:ARGV")
    if tokens and kind not in ("openai", "command"):
        hint = "policies hf, openai, command"
        raise UsageError(f"--tokens: {kind} is no model whose tokens could be recorded", hint=hint)
    if kind not in ("openai", "command"):
        return policy, {}
    from rover.policy.openai import Settings

    options: dict[str, Any] = {
        "server": server or os.environ.get("OPENAI_BASE_URL", ""),
        "key": os.environ.get("OPENAI_API_KEY", ""),
        "settings": Settings(temperature=temperature if temperature >= 0 else None),
        "record": record,
        "tokens": tokens,
    }
    if kind == "command":
        return policy, {**options, "model": model, "agent": agent}
    return f"openai:{name or model}", options


def _by(row: Ran) -> str:
    how = "reused" if row.reused else "run"
    return f"{how}, 2nd try" if row.retried else how


def _why(reason: str) -> str:
    """A reason short enough for a table, without the score, which has a column; `rover show` has all of it."""
    short = re.sub(r"\d\.\d\d of the weight \(a pass needs \d\.\d\d\); ", "", reason)
    return short if len(short) <= 90 else f"{short[:89]}…"


def _report(rows: Sequence[Ran], as_json: bool) -> None:
    if not as_json and rows:
        cells = [
            (r.package, r.attempt + 1, r.outcome, "" if r.score is None else f"{r.score:.2f}", r.rollout[:10],
             _by(r), "" if r.outcome == "passed" else _why(r.reason))
            for r in rows
        ]  # fmt: skip
        print(table(cells, ("package", "k", "outcome", "score", "rollout", "by", "reason"), right=(1, 3)))
    reused = sum(r.reused for r in rows)
    counts = {o: sum(r.outcome == o for r in rows) for o in dict.fromkeys(r.outcome for r in rows)}
    said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    note(f"{counted(len(rows), 'rollout')}: {said or 'none'}; {len(rows) - reused} run, {reused} reused")
