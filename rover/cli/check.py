"""`rover check`: are packages sound?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import typer

from rover.cli.output import (
    Json,
    Part,
    Rev,
    Sandbox,
    Seed,
    Workers,
    counted,
    note,
    print_jsonl,
    progress,
    say,
    table,
    wrapped,
)
from rover.cli.stores import open_store
from rover_store.errors import StoreError, UsageError

if TYPE_CHECKING:
    from rover.ops.check import Checked
    from rover.ops.findings import Said
    from rover.sandbox.protocol import Runtime

_LEVELS = ("error", "warning", "note")
#: rollouts that are named beside one finding
_SHOWN = 3


def command(
    pattern: str = typer.Argument("*", metavar="GLOB|PATH", help="Names in the store, or a path: ./tasks, `.`."),
    rev: str = Rev,
    static: bool = typer.Option(False, "--static", help="Run nothing: read records and files alone."),
    fail_on: str = typer.Option("error", "--fail-on", metavar="LEVEL", help="Exit 1 from error, warning or note on."),
    sarif: Path = typer.Option(None, "--sarif", metavar="FILE", help="Write the findings there, as SARIF 2.1.0."),
    base: str = typer.Option("", "--base", metavar="DIR", help="What stands before every path in SARIF."),
    seed: int = Seed,
    workers: int = Workers,
    shard: str | None = Part,
    sandbox: str = Sandbox,
    as_json: bool = Json,
) -> None:
    """Check that packages are sound.

    The records must fit together, and the verifier must be right on every case whose answer is known: it rejects
    the start state, every null attacker and every negative, and accepts the reference and every alternative. What
    was run before is not run again.

    A package whose verifier is a program is read as a task from elsewhere too (names, leaks, secrets, images,
    network, times), and diagnosed: its solution and the attackers go through its own harness. PATH, which has a slash
    or is `.` or `..`, checks a folder or archive of Harbor tasks that is in no store, and writes nothing there.

    Exit code 1 where something is wrong, 3 where the sandbox may not run a package and nothing else is wrong. See
    `rover help check`.

    Example: rover check 'my-*'
    """
    from rover.ops.check import check
    from rover.ops.check_folder import check_folder, is_path
    from rover.ops.shard import Shard

    if fail_on not in _LEVELS:
        raise UsageError(f"--fail-on {fail_on}: there are {', '.join(_LEVELS)}")
    if sarif is not None and not sarif.absolute().parent.is_dir():
        raise UsageError(f"{sarif}: there is no folder {sarif.parent}")
    part = Shard.parse(shard) if shard is not None else None
    with progress("packages") as bar:

        def told(found: Checked, done: int, total: int) -> None:
            bar(done, total, found.package)
            if as_json:
                print_jsonl([_plain(found)])

        if is_path(pattern):
            path = Path(pattern).expanduser()
            every = check_folder(path, _runtime(sandbox, static), seed=seed, workers=workers, shard=part, told=told)
        else:
            with _no_path(pattern):
                store = open_store()
                every = check(
                    store, _runtime(sandbox, static), pattern, rev, seed=seed, workers=workers, shard=part, told=told
                )
    if sarif is not None:
        from rover.ops.sarif import sarif as written
        from rover_store.files.outputs import write_output

        write_output(sarif, written(every, base))
    if not as_json:
        _report(every)
    _end(every, fail_on)


@contextmanager
def _no_path(pattern: str) -> Iterator[None]:
    """Where there is no such package, nor a store, but a file or folder of that name: how to say that it is meant."""
    try:
        yield
    except (StoreError, UsageError) as error:
        if error.exit_code == 2 and os.path.exists(pattern):  # asks of a name of any length
            error.hint = f"{pattern} lies here: ./{pattern} checks that"
        raise


def _runtime(sandbox: str, static: bool) -> Runtime | None:
    if static:
        return None
    from rover.sandbox.registry import open_runtime

    return open_runtime(sandbox or None)


def _end(every: tuple[Checked, ...], fail_on: str) -> None:
    wrong = sum(not found.ok for found in every)
    how = "read" if every and every[0].static else "checked"
    said = f"{counted(len(every), 'package')} {how}, {wrong or 'none'} wrong"
    for level in _LEVELS[1:]:
        count = sum(found.count_level(level) for found in every)
        said += f", {counted(count, level)}" if count else ""
    refused = [found for found in every if found.refused]
    note(said + (f"; {len(refused)} could not be run here" if refused else ""))
    counts = _LEVELS[: _LEVELS.index(fail_on) + 1]
    if wrong or any(found.count_level(level) for found in every for level in counts):
        raise typer.Exit(1)
    if refused:
        raise typer.Exit(3)


def _report(every: tuple[Checked, ...]) -> None:
    from rover.construct.calibrate import Kind

    kinds = get_args(Kind)
    if any(found.calibration for found in every) or not any(found.said for found in every if found.static):
        rows = [(f.package, _state(f), len(f.problems) or "", *(_share(*f.count(k)) for k in kinds)) for f in every]
        heads = ("package", "", "rec.", "start", "att.", "neg.", "ref", "alt.")
        print(table(rows, heads, right=range(2, 8)))
    else:
        counts = [(f.package, _state(f), *(f.count_level(level) or "" for level in _LEVELS)) for f in every]
        print(table(counts, ("package", "", "errors", "warnings", "notes"), right=range(2, 5)))
    if all(one.case for found in every for one in found.said):
        cells = [(f.package, one.case, _what(one)) for f in every for one in f.said]
        if cells:
            print()
            print(table(cells, ("package", "case or field", "what is wrong"), whole=(1,)))
            print()
        for kind, text in _to_do(one for f in every for one in f.said).items():
            say(wrapped(f"{kind}: {text}", "  "))
        return
    for found in every:
        if found.said:
            say(f"\n{found.package}")
        for one in found.said:
            at = f"{one.file}:{one.line}" if one.line else one.file
            say(f"  {one.level}: {at}: {one.finding.kind}{f' ({one.case})' if one.case not in ('', one.file) else ''}")
            say(wrapped(f"    {_what(one)}", "    "))
            if shown := [item[:10] for item in one.finding.evidence if re.fullmatch("[0-9a-f]{64}", item)]:
                say(f"    seen in {'rollout' if len(shown) == 1 else 'rollouts'} {', '.join(shown[:_SHOWN])}")
            for text in _to_do([one]).values():
                say(wrapped(f"    to do: {text}", "    "))


def _to_do(said: Iterable[Said]) -> dict[str, str]:
    """Kind -> what to do about it, each once."""
    from rover.diagnose.remedies import REMEDIES

    kinds = dict.fromkeys(one.finding.kind for one in said)
    return {kind: REMEDIES[kind] for kind in kinds if kind in REMEDIES and kind != "broken_record"}


def _state(found: Checked) -> str:
    if not found.ok:
        return "wrong"
    return "not run" if found.refused else "read" if found.static else "sound"


def _what(one: Said) -> str:
    from rover.policy.null import DID

    finding = one.finding
    if finding.probe == "calibration":
        name = str(finding.details["subject"]).removeprefix("null:") if "attackers" in finding.details else ""
        did = f", who {DID[name]}" if name in DID else ""
        return f"{finding.details['observed']}{did}: {finding.message.partition(': ')[2]}"
    if finding.probe == "records":
        field = finding.details.get("field")
        return finding.message.removeprefix(f"{field}: ") if field else finding.message
    return finding.message


def _share(right: int, of: int) -> str:
    return f"{right}/{of}" if of else "-"


def _plain(found: Checked) -> dict[str, Any]:
    from dataclasses import asdict

    calibration = found.calibration
    return {
        "package": found.package,
        "tree": found.tree,
        "ok": found.ok,
        "problems": [dict(zip(("file", "field", "reason"), p, strict=True)) for p in found.problems],
        "cases": [{**asdict(row), "ok": row.ok} for row in calibration.rows] if calibration else None,
        "findings": [_finding(one) for one in found.said],
        "static": found.static,
        "refused": found.refused or None,
        "run": calibration.run if calibration else 0,
        "reused": calibration.reused if calibration else 0,
    }


def _finding(one: Said) -> dict[str, Any]:
    finding = one.finding
    return {
        "level": one.level,
        "kind": finding.kind,
        "component": one.component,
        "file": one.file,
        "line": one.line,
        "message": finding.message,
        "status": finding.status,
        "probe": finding.probe,
        "requirement": finding.requirement,
        "evidence": list(finding.evidence),
        "details": finding.details,
    }
