"""`rover bisect`: the first bad commit, found by a command, or by a check of one package over its evidence."""

from __future__ import annotations

import os
import re
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from rover.cli.output import Json, Sandbox, Seed, Workers, counted, note, print_json, say, utc, wrapped
from rover.cli.stores import open_store
from rover_store.errors import UsageError

if TYPE_CHECKING:
    from rover.ops.bisect_check import Brought, Judgement

_ID = re.compile("[0-9a-f]{40,64}")


def command(
    what: str = typer.Argument(..., metavar="GOOD|PACKAGE", help="A good revision; with --check a package."),
    bad: str = typer.Argument("", metavar="[BAD]", help="A later revision that is bad; HEAD if empty."),
    run: str = typer.Option("", "--run", metavar="CMD", help="Shell command; {rev} in it is the commit to try."),
    check: str = typer.Option("", "--check", metavar="EXPR", help="What a version of the package has to fulfil."),
    good_rev: str = typer.Option("", "--good", metavar="REV", help="With --check: good; else the first version."),
    bad_rev: str = typer.Option("", "--bad", metavar="REV", help="With --check: bad; HEAD if empty."),
    seed: int = Seed,
    workers: int = Workers,
    sandbox: str = Sandbox,
    as_json: bool = Json,
) -> None:
    """Find the first bad commit on the line of first parents, by trying its middle.

    With --run: the command says 0 for good, 125 for untestable, another code below 126
    for bad; any other ends the search. ROVER_STORE and ROVER_REV are set for it, and
    what it prints goes to stderr.

    With --check: the commit that brought a defect to a package, as in
    `rover bisect my-task --check finding:missing_given`. Stored verdicts and diagnoses
    are asked first; what they do not tell is replayed. Also probe:NAME, verdict:sound,
    passes:POLICY, 'score:POLICY>=0.75', accepts:reference, rejects:null:echo, and
    'not EXPR'; see `rover help evolve`.

    Example: rover bisect HEAD~1 HEAD --run 'rover show {rev}:my-task/README.md'
    """
    if bool(run) == bool(check):
        raise UsageError("name one of --run and --check", hint="see `rover bisect --help`")
    if run and (good_rev or bad_rev):
        raise UsageError("--good and --bad go with --check", hint="rover bisect GOOD BAD --run CMD")
    if run:
        _by_command(what, bad or "HEAD", run, as_json)
        return
    if bad:
        raise UsageError(f"{bad!r}: with --check, revisions are named with --good and --bad")
    from rover.ops.bisect_check import Asked, bisect_check
    from rover.sandbox.registry import open_runtime

    model = {"server": os.environ.get("OPENAI_BASE_URL", ""), "key": os.environ.get("OPENAI_API_KEY", "")}
    options = model if ":openai:" in f":{check}" else {}
    asked = Asked(what, check, good_rev, bad_rev or "HEAD", seed, workers, options)
    found = bisect_check(open_store(), lambda: open_runtime(sandbox or None), asked, _tell)
    if as_json:
        print_json({**asdict(found), "by_evidence": found.count("evidence"), "by_replay": found.count("replay")})
    else:
        _print(found)


def _tell(step: Judgement) -> None:
    verdict = {True: "good", False: "bad", None: "skip"}[step.good]
    note(f"{step.commit[:10]}  {verdict:<4}  by {step.by}: {step.reason}"[:100])


def _print(found: Brought) -> None:
    say(f"first bad commit {found.commit}")
    say(f"  {utc(found.time)}  {found.author.partition(' <')[0]}  {found.subject}")
    say(wrapped(f"  {found.reason}", "  "))
    if found.since_start:
        say(f"  {found.package} was like this in the first version that can be judged")
    if found.skipped:
        say(f"  or one of the {len(found.skipped)} before it that could not be judged")
    say(f"  see it: rover diff {found.commit[:12]}~1 {found.commit[:12]}" if not found.since_start
        else f"  see it: rover show {found.commit[:12]}:{found.package}")  # fmt: skip
    if found.evidence:
        ids = [e[:12] if _ID.fullmatch(e) else e for e in found.evidence[:3]]
        say(wrapped(f"  evidence: {', '.join(ids)}", "  "))
    tried = f"{counted(len(found.judged), 'commit')} of {found.commits} judged"
    note(f"{tried}: {found.count('evidence')} by evidence, {found.count('replay')} by replay")


def _by_command(good: str, bad: str, run: str, as_json: bool) -> None:
    from rover.ops.bisect import bisect

    found = bisect(
        open_store(), good, bad, run,
        lambda step: note(f"{step.commit[:10]}  {step.verdict:<4}  {counted(step.left, 'commit')} left"),
    )  # fmt: skip
    if as_json:
        print_json(found._asdict())
        return
    say(f"first bad commit {found.commit}")
    say(f"  {utc(found.time)}  {found.author.partition(' <')[0]}  {found.subject}")
    if found.skipped:
        say(f"  or one of the {len(found.skipped)} before it that could not be tested")
