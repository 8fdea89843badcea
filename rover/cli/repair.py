"""`rover repair`: repair a package by Factorial Compatibility Replay."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rover.cli.output import Json, Sandbox, Seed, Workers, note, print_json, progress, say, table, wrapped
from rover.cli.stores import command_line, open_store

if TYPE_CHECKING:
    from rover.ops.repair import RepairReport
    from rover.policy.protocol import Policy
    from rover_store.records import Candidate, Repair


def command(
    package: str = typer.Argument(..., metavar="PACKAGE", help="The package to repair."),
    fcr: bool = typer.Option(True, "--fcr", help="By Factorial Compatibility Replay, the one method there is."),
    exhaustive: bool = typer.Option(
        False, "--exhaustive/--lazy", help="Replay every combination, or stop at the first that passes."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Replay and select, store nothing but evidence."),
    propose: list[str] = typer.Option(
        [], "--propose", metavar="COMPONENT=DIR", help="A replacement by hand; may be given for each component."
    ),
    from_rev: str = typer.Option("", "--from", metavar="REV", help="Propose the components of an earlier revision."),
    policy: list[str] = typer.Option(
        [], "--policy", help="A model to replay as well, such as openai:NAME; see `rover help policies`."
    ),
    review: bool = typer.Option(False, "--review", help="Leave the choice on a branch, review/CASE, for a person."),
    interactive: bool = typer.Option(
        False, "--interactive", help="Replay every combination, show them, and ask which to take."
    ),
    seeds: int = typer.Option(1, "-k", "--seeds", min=1, max=64, help="Rollouts of each policy for each candidate."),
    styles: int = typer.Option(
        1, "--styles", min=1, max=8, help="Proposals of so many styles for each component, tried set by set."
    ),
    model: str = typer.Option("", "--model", metavar="NAME", help="A model that proposes, after rules and history."),
    server: str = typer.Option("", "--server", metavar="URL", envvar="OPENAI_BASE_URL", help="The model's server."),
    key: str = typer.Option("", "--key", envvar="OPENAI_API_KEY", help="Key for the server.", hidden=True),
    recording: Path | None = typer.Option(None, "--model-recording", metavar="FILE", help="Play and keep its answers."),
    max_rollouts: int | None = typer.Option(None, "--max-rollouts", min=0, help="Run no more rollouts than this."),
    max_seconds: float | None = typer.Option(None, "--max-seconds", min=0, help="Stop after so many seconds."),
    max_tokens: int | None = typer.Option(None, "--max-tokens", min=0, help="Stop after so many tokens of models."),
    workers: int = Workers,
    seed: int = Seed,
    sandbox: str = Sandbox,
    as_json: bool = Json,
) -> None:
    """Repair a package by the smallest combination of edits that passes every gate.

    Diagnoses the package, freezes at most one proposal for each component, and replays every combination of
    them under the same policies and seeds. The choice is confirmed on new seeds and by the sealed audit before
    the branch moves. An agent's mistake changes nothing. The same command goes on where it was interrupted, or
    where a bound of --max-rollouts, --max-seconds or --max-tokens ended it undecided.
    `rover explain CASE` says why it chose what it chose. With --review the choice waits on the branch review/CASE
    for `rover promote CASE`. The exit code is 1 where nothing was promoted or left for review.

    Example: rover repair my-task --fcr --exhaustive
    """
    from rover.cli.choose import Question
    from rover_store.errors import UsageError

    if review and dry_run:
        raise UsageError("--review and --dry-run exclude each other")
    from rover.ops.repair import RepairRequest, repair
    from rover.repair.budget import RepairBudget
    from rover.repair.proposals.models import models
    from rover.sandbox.registry import open_runtime

    request = RepairRequest(
        package=package,
        lazy=not (exhaustive or interactive),
        dry_run=dry_run,
        propose=_folders(propose),
        from_rev=from_rev,
        seed=seed,
        seeds=seeds,
        models=_models(policy),
        command=command_line(),
        review=review,
        choose=Question() if interactive else None,
        styles=styles,
        proposers=models(model, server, key, recording),
        budget=RepairBudget(rollouts=max_rollouts, seconds=max_seconds, tokens=max_tokens),
    )
    with progress("repair") as bar:
        report = repair(
            open_store(),
            open_runtime(sandbox or None),
            request,
            workers=workers,
            progress=lambda text: bar(text=text),
        )
    if as_json:
        print_json(_json(report))
    else:
        _print(report)
    if report.repair.outcome not in ("promoted", "review", "dry_run"):
        raise typer.Exit(1)


def _models(specs: list[str]) -> list[Policy]:
    import os

    from rover.policy.registry import get_policy

    server, key = os.environ.get("OPENAI_BASE_URL", ""), os.environ.get("OPENAI_API_KEY", "")
    return [get_policy(spec, server=server, key=key) for spec in specs]


def _folders(propose: list[str]) -> dict[str, Path]:
    from rover_store.errors import UsageError

    out: dict[str, Path] = {}
    for item in propose:
        component, sign, folder = item.partition("=")
        if not sign or not folder:
            raise UsageError(f"--propose {item!r}: write COMPONENT=DIR", hint="context, task, harness or verifier")
        if component in out:
            raise UsageError(f"--propose {component}: given twice")
        out[component] = Path(folder)
    return out


def _json(report: RepairReport) -> dict[str, Any]:
    value: dict[str, Any] = report.repair.model_dump(mode="json")
    value["case_commit"] = report.case or None
    value["review"] = report.review or None
    value["rollouts_run"], value["rollouts_reused"] = report.rollouts_run, report.rollouts_reused
    value["sets"], value["sets_left_out"] = report.sets, report.sets_left_out
    return value


def _print(report: RepairReport) -> None:
    found = report.repair
    print(wrapped(f"{found.package}: {found.diagnosis.summary}"))
    print(lattice(found))
    if report.case:
        say(f"case {found.case} ({report.case[:12]})")
        say(f"why: rover explain {found.case}")
    if not found.proposals and found.outcome in ("kept", "undecided"):
        for line in _by_hand(found):
            say(wrapped(line, "  "))
    if report.review:
        say(f"look at it: rover diff HEAD {report.review}")
        say(f"take it: rover promote {found.case}, or drop it with --drop")
    note(f"{report.rollouts_run} rollouts run, {report.rollouts_reused} reused in replay")
    if report.sets > 1 or report.sets_left_out:
        left = f", {report.sets_left_out} were left out" if report.sets_left_out else ""
        note(f"{report.sets} sets of proposals tried{left}")


def _by_hand(found: Repair) -> list[str]:
    """What a person can do where nobody proposes anything."""
    from rover.diagnose.remedies import REMEDIES

    faults = [f for f in found.diagnosis.findings if f.status == "confirmed" and f.components]
    if not faults:
        return []
    name, component = found.package, faults[0].components[0]
    advice = {f.kind: REMEDIES[f.kind] for f in faults if f.kind in REMEDIES}
    return [
        *(f"to do about {kind}: {text}" for kind, text in advice.items()),
        "by hand:",
        f"  rover checkout {name} {name}-edited",
        f"  edit {name}-edited/{component}, then",
        f"  rover repair {name} --propose {component}={name}-edited/{component}",
    ]


def lattice(found: Repair, *, said: bool = True) -> str:
    """Proposals, the table of combinations, confirmation and (`said`) outcome."""
    from rover.repair.fcr import letters

    lines = [
        wrapped(f"  proposed {letters(_bit(p.component))}  {p.rationale or p.source}", " " * 14)
        for p in found.proposals
    ]
    if found.candidates:
        lines += ["", table([_row(c) for c in _ordered(found.candidates)], _HEAD, right=(2, 3, 4)), ""]
    lines += [f"{g.gate}: {'holds' if g.passed else 'fails'}; {g.reason}" for g in found.confirmation]
    if said:
        lines.append(wrapped(f"{found.outcome}: {found.reason}"))
    if found.promoted:
        lines.append(f"the branch is at {found.promoted[:12]}")
    return "\n".join(lines)


def render_case(data: dict[str, Any]) -> str:
    """A stored case in words."""
    from rover_store.records import Repair

    found = Repair.model_validate({k: v for k, v in data.items() if k != "commit"})
    head = f"case {found.case} of {found.package}, on {found.parent[:12]}"
    return "\n".join([head, wrapped(found.diagnosis.summary), lattice(found)])


#: chg and reb: changed versions and rebuilt nodes; runs: rollouts run + reused
_HEAD = ("mask", "edits", "chg", "reb", "runs", "result", "gates")


def _row(candidate: Candidate) -> tuple[object, ...]:
    from rover.repair.fcr import letters

    failed = [f"{g.gate}: {g.reason}" for g in candidate.gates if not g.passed]
    passed = ", ".join(g.gate for g in candidate.gates if g.passed)
    return (
        candidate.mask,
        letters(candidate.mask),
        len(candidate.changed),
        len(candidate.rebuilt),
        f"{candidate.rollouts_run}+{candidate.rollouts_reused}",
        candidate.status,
        "; ".join(failed) or passed,
    )


def _ordered(candidates: tuple[Candidate, ...]) -> list[Candidate]:
    """Control first, then the order of selection, conflicts last."""
    return sorted(
        candidates,
        key=lambda c: (c.status == "conflict", c.mask != 0, len(c.changed), len(c.rebuilt), c.cost, c.mask),
    )


def _bit(component: str) -> int:
    from rover_store.ids import BIT

    return BIT[component]  # type: ignore[index]
