"""`rover diagnose`: tell an environment defect from an agent's mistake."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rover.cli.output import (
    Json,
    Rev,
    Sandbox,
    Seed,
    Workers,
    counted,
    note,
    print_json,
    print_jsonl,
    progress,
    say,
    table,
    width,
)
from rover.cli.stores import open_store

if TYPE_CHECKING:
    from rover_store.records import Diagnosis, Finding

#: verdict -> exit code: findings 1, infrastructure 3, else 0
_EXIT = {"environment": 1, "undecided": 1, "infrastructure": 3}


def command(
    package: str = typer.Argument(..., metavar="PACKAGE", help="The package to examine, or a glob for several."),
    rev: str = Rev,
    seed: int = Seed,
    workers: int = Workers,
    explain: bool = typer.Option(False, "--explain", help="What was asked, what each finding rules out, its evidence."),
    model: str = typer.Option("", "--model", metavar="NAME", help="A model that may add hypotheses."),
    server: str = typer.Option("", "--server", metavar="URL", envvar="OPENAI_BASE_URL", help="The model's server."),
    key: str = typer.Option("", "--key", envvar="OPENAI_API_KEY", help="Key for the server.", hidden=True),
    recording: Path | None = typer.Option(None, "--model-recording", metavar="FILE", help="Play and keep its answers."),
    sandbox: str = Sandbox,
    as_json: bool = Json,
) -> None:
    """Tell an environment defect from an agent's mistake.

    Probes solve the task again, derive its answers again, evaluate the contract apart from the verifier, try the
    verifier on right and wrong work, and read request, contract, tools and files side by side. Recorded rollouts of
    this very version are weighed with them. A defect of the environment ends with exit code 1, a sound package and an
    agent's mistake with 0, broken infrastructure with 3.

    With a glob, one line a package (JSON Lines with --json); what ran before is taken from the evidence.

    Example: rover diagnose 'my-*' -n 4
    """
    from rover.ops.diagnose import answers

    model_answers = answers(model, server, key, recording)
    several = any(c in package for c in "*?[")
    found: list[Diagnosis] = []
    with progress("probes") as bar:
        for one in _each(package, rev, seed, workers, sandbox, model_answers, bar, several):
            found.append(one)
            if as_json and several:
                print_jsonl([one.model_dump(mode="json", exclude_none=True)])
    if as_json and not several:
        print_json(found[0].model_dump(mode="json", exclude_none=True))
    elif not as_json and several:
        _print_several(found, explain, rev)
    elif not as_json:
        _print(found[0], explain, rev)
    note(f"{sum(d.rollouts_run for d in found)} rollouts run, {sum(d.rollouts_reused for d in found)} reused")
    codes = {_EXIT.get(d.verdict, 0) for d in found}
    if codes - {0}:
        raise typer.Exit(1 if 1 in codes else 3)


def _each(
    package: str, rev: str, seed: int, workers: int, sandbox: str, model: object, bar: object, several: bool
) -> Iterator[Diagnosis]:
    from rover.ops.diagnose import diagnose_package, diagnose_packages
    from rover.sandbox.registry import open_runtime

    assert callable(bar)
    store, runtime = open_store(), open_runtime(sandbox or None)
    options = {"rev": rev, "seed": seed, "workers": workers, "model": model}
    if several:

        def told(name: str, number: int, total: int, probe: str) -> None:
            bar(number, total, f"{name} {probe}")

        yield from diagnose_packages(store, runtime, package, told=told, **options)  # type: ignore[arg-type]
        return
    count = 0

    def asked(name: str) -> None:
        nonlocal count
        count += 1
        bar(count, 0, name)

    yield diagnose_package(store, runtime, package, progress=asked, **options)  # type: ignore[arg-type]


def _print_several(found: list[Diagnosis], explain: bool, rev: str) -> None:
    rows = [(d.package, d.verdict, _blamed(d), _first(d)) for d in found]
    print(table(rows, ("package", "verdict", "at fault", "what")))
    if explain:
        for one in found:
            if one.verdict not in ("sound", "agent"):
                print()
                _print(one, explain, rev)
    counts = {v: sum(d.verdict == v for d in found) for v in dict.fromkeys(d.verdict for d in found)}
    say(f"\n{counted(len(found), 'package')}: " + ", ".join(f"{n} {v}" for v, n in counts.items()))
    if counts.get("environment"):
        say("next: rover diagnose PACKAGE --explain; rover repair PACKAGE --fcr")


def _print(found: Diagnosis, explain: bool, rev: str) -> None:
    sure = f" (confidence {found.confidence:.2f})" if explain and found.confidence is not None else ""
    say(f"{found.package}: {found.verdict}{sure}")
    print(textwrap.fill(found.summary, width(), break_long_words=False))
    confirmed = [f for f in found.findings if f.status == "confirmed"]
    shown = list(found.findings) if explain else confirmed
    if shown:
        print()
        print(table([_row(f) for f in shown], ("finding", "in", "probe", "what")))
    if explain and found.blame:
        _say("blame: " + ", ".join(f"{name} {value:.2f}" for name, value in found.blame.items()))
    if explain:
        for finding in shown:
            _explained(found, finding, rev)
        _asked(found)
    say(f"\nnext: {_next(found)}")


def _explained(found: Diagnosis, finding: Finding, rev: str) -> None:
    """One finding in plain words: what it means, how sure, what it rules out, how to see the evidence."""
    from rover.diagnose.kinds import KINDS

    sure = f", confidence {finding.confidence:.2f}" if finding.confidence is not None else ""
    say(f"\n{finding.kind} ({finding.status}{sure}), suspects {', '.join(finding.components)}")
    meaning = next((k.summary for k in KINDS if k.name == finding.kind), "")
    _say(meaning)
    _say(finding.message)
    for text in finding.excludes or ():
        _say(f"rules out {text}")
    if finding.status == "hypothesis":
        _say("a hypothesis: nothing that ran has confirmed it, and no verdict rests on it")
    for item in finding.evidence:
        say(f"  see  {_see(found, item, rev)}")


def _asked(found: Diagnosis) -> None:
    """Which probes were asked, and that the others found nothing."""
    from rover.diagnose.registry import probes

    said = {f.probe for f in found.findings}
    silent = [p.name for p in probes() if p.name not in said]
    say("\nasked and silent:")
    print(textwrap.indent(textwrap.fill(", ".join(silent), width() - 2, break_long_words=False), "  "))


def _see(found: Diagnosis, item: str, rev: str) -> str:
    """The command that shows a piece of evidence."""
    here = f"{rev}:{found.package}"
    if re.fullmatch(r"[0-9a-f]{64}", item):
        return f"rover show {item[:16]}"
    if re.fullmatch(r"[0-9a-f]{40}", item):
        held = _stored(item)
        return f"rover show {item[:16]}" if held else f"rover show {here}/context  (the workspace at the start)"
    if item.startswith("case:"):
        return f"rover show {here}/verifier/cases/cases.json  ({item.removeprefix('case:')})"
    if item.startswith(("task/", "context/", "verifier/", "harness/")):
        return f"rover show {here}/{item}"
    if item == "instruction":
        return f"rover show {here}/task/instruction.md"
    return f"rover show {here}/context/context.json  (where {item} of the workspace comes from)"


def _stored(item: str) -> bool:
    return bool(open_store().objects.exists(item))


def _say(text: str) -> None:
    if text:
        print(textwrap.indent(textwrap.fill(text, width() - 2, break_long_words=False), "  "))


def _row(finding: Finding) -> tuple[str, str, str, str]:
    kind = finding.kind if finding.status == "confirmed" else f"({finding.kind})"
    return kind, finding.components[0], finding.probe, finding.message


def _blamed(found: Diagnosis) -> str:
    return ", ".join(name for name, value in (found.blame or {}).items() if value >= 0.5) or "-"


def _first(found: Diagnosis) -> str:
    confirmed = [f for f in found.findings if f.status == "confirmed"]
    if not confirmed:
        return "" if found.verdict == "sound" else found.summary
    more = f" (and {len(confirmed) - 1} more)" if len(confirmed) > 1 else ""
    return f"{confirmed[0].kind}: {confirmed[0].message}{more}"


def _next(found: Diagnosis) -> str:
    if found.verdict == "environment":
        return f"rover repair {found.package} --fcr"
    if found.verdict == "agent":
        return f"nothing in the package; look at the rollouts: rover run {found.package} --policy ..."
    if found.verdict == "undecided":
        return f"rover show {found.package}; then by hand: rover repair {found.package} --propose task=DIR"
    if found.verdict == "infrastructure":
        return "rover doctor"
    return f"nothing in the package; more rollouts: rover run {found.package} --policy ..."
