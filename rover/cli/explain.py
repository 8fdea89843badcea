"""`rover explain`: why a repair case chose what it chose."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from rover.cli.output import Json, print_json, say, width, wrapped
from rover.cli.stores import open_store

if TYPE_CHECKING:
    from rover.ops.explain import Combination, Explained
    from rover.ops.pointers import Pointer

#: evidence of one gate that is listed; `--mask` lists all
_SHOWN = 3


def command(
    case: str = typer.Argument(..., metavar="CASE", help="A repair case, or the beginning of its name."),
    mask: str = typer.Option("", "--mask", metavar="TV", help="One combination in full: letters of C, T, H, V."),
    as_json: bool = Json,
) -> None:
    """Say why a repair chose this combination and not that one.

    In plain words, from the record of the case: what was found, what was proposed for which component, what
    became of each combination and by which evidence, and what confirmation and audit said. Each piece comes with
    the command that shows it. Nothing is run.

    Example: rover explain my-task
    """
    from rover.ops.explain import explain

    found = explain(open_store(), case, mask)
    if as_json:
        print_json(_json(found))
    elif mask:
        _print_combination(found.combinations[0], whole=True)
    else:
        _print(found)


def _print(found: Explained) -> None:
    repair = found.repair
    say(wrapped(f"case {found.case} of {repair.package}, on {repair.parent[:12]}", "  "))
    _text(found.answer)
    say("\nWhat was found")
    _text(repair.diagnosis.summary, 2)
    for finding, evidence in zip(repair.diagnosis.findings, found.findings, strict=True):
        doubt = "" if finding.status == "confirmed" else " (not confirmed)"
        sure = "" if finding.confidence is None else f", {finding.confidence:.0%} sure"
        suspects = ", then ".join(finding.components)
        _text(f"- {finding.kind}{doubt}, by the probe {finding.probe}{sure}: {finding.message}", 2)
        _text(f"suspects {suspects}", 4)
        _evidence(evidence, 4)
    if found.proposals:
        say("\nWhat was proposed")
    for proposal, shown in zip(repair.proposals, found.proposals, strict=True):
        _text(f"- {proposal.component}, by {proposal.source}: {proposal.rationale or 'no words with it'}", 2)
        say(f"    {shown}")
    if found.combinations:
        say("\nWhat became of each combination")
    for combination in found.combinations:
        _print_combination(combination, whole=False)
    if found.joint:
        say("")
        _text(found.joint)
    if repair.confirmation:
        say("\nWhat was asked of the choice")
    for gate in repair.confirmation:
        _text(f"- {gate.gate} {'holds' if gate.passed else 'fails'}: {gate.reason}", 2)
    say(f"\n{_next(found)}")


def _print_combination(found: Combination, *, whole: bool) -> None:
    candidate = found.candidate
    said = found.why if found.candidate.mask == 0 else f"{found.name}: {found.why}"
    _text(said if whole else f"- {said}", 0 if whole else 2)
    pad = 2 if whole else 4
    if whole and candidate.changed:
        _text(f"changed  {', '.join(candidate.changed)}", pad)
        _text(f"rebuilt  {', '.join(candidate.rebuilt) or 'nothing'}", pad)
        say(f"{' ' * pad}{candidate.cost} bytes of change; "
            f"{candidate.rollouts_run} rollouts run, {candidate.rollouts_reused} reused")  # fmt: skip
    for gate, evidence in zip(candidate.gates, found.evidence, strict=True):
        if whole:
            _text(f"{gate.gate} {'holds' if gate.passed else 'fails'}{': ' if gate.reason else ''}{gate.reason}", pad)
        for line in gate.details or () if whole or not gate.passed else ():
            if whole or not line.startswith("kept"):
                _text(f"- {line}", pad + 2)
        if whole or not gate.passed:
            _evidence(evidence, pad + 2 if whole else pad, None if whole else _SHOWN)
    for command_ in found.commands if whole or found.failed or found.why.startswith("chosen") else ():
        say(f"{' ' * pad}{command_}")


def _evidence(found: Sequence[Pointer], pad: int, limit: int | None = _SHOWN) -> None:
    for item in found[:limit]:
        shown = [item.command or item.id[:40], "#" if item.command and item.what else "", item.what]
        say(" " * pad + "  ".join(s for s in shown if s))
    if limit is not None and len(found) > limit:
        say(f"{' ' * pad}and {len(found) - limit} more")


def _text(text: str, pad: int = 0) -> None:
    indent = " " * pad
    rest = indent + ("  " if text.startswith("- ") else "")
    lines = textwrap.wrap(text, width(), initial_indent=indent, subsequent_indent=rest, break_long_words=False,
                          break_on_hyphens=False)  # fmt: skip
    say("\n".join(lines))


def _next(found: Explained) -> str:
    repair = found.repair
    if repair.outcome == "review":
        return f"next: rover promote {found.case}\n      or drop it with --drop"
    if repair.outcome == "promoted":
        return f"see it: rover diff {repair.parent[:12]} {(repair.promoted or '')[:12]}"
    if repair.outcome == "abstained":
        return f"next: rover run {repair.package} --policy ..."
    return f"next, by hand: rover repair {repair.package} --propose task=DIR"


def _json(found: Explained) -> dict[str, Any]:
    repair = found.repair
    return {
        "case": found.case,
        "commit": found.commit,
        "package": repair.package,
        "parent": repair.parent,
        "outcome": repair.outcome,
        "answer": found.answer,
        "joint": found.joint or None,
        "findings": [
            {**f.model_dump(mode="json", exclude_none=True), "shown_by": [p._asdict() for p in evidence]}
            for f, evidence in zip(repair.diagnosis.findings, found.findings, strict=True)
        ],
        "proposals": [
            {**p.model_dump(mode="json", exclude_none=True), "shown_by": shown}
            for p, shown in zip(repair.proposals, found.proposals, strict=True)
        ],
        "combinations": [
            {
                **c.candidate.model_dump(mode="json", exclude_none=True),
                "name": c.name,
                "why": c.why,
                "shown_by": [[p._asdict() for p in evidence] for evidence in c.evidence],
                "commands": list(c.commands),
            }
            for c in found.combinations
        ],
        "confirmation": [g.model_dump(mode="json") for g in repair.confirmation],
    }
