"""`rover check`: are packages sound?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import typer

from rover.cli.output import Json, Rev, Sandbox, Seed, Workers, counted, note, print_jsonl, progress, table
from rover.cli.stores import open_store

if TYPE_CHECKING:
    from rover.ops.check import Checked


def command(
    pattern: str = typer.Argument("*", metavar="GLOB", help="Which packages, by a glob on names."),
    rev: str = Rev,
    seed: int = Seed,
    workers: int = Workers,
    sandbox: str = Sandbox,
    as_json: bool = Json,
) -> None:
    """Check that packages are sound.

    The records must fit together, and the verifier must be right on every case whose answer is known: it rejects
    the start state, every null attacker and every negative, and accepts the reference and every alternative. What
    was run before is not run again. Ends with exit code 1 where something is wrong.

    Example: rover check 'my-*'
    """
    from rover.ops.check import check
    from rover.sandbox.registry import open_runtime

    store = open_store()
    with progress("packages") as bar:

        def told(found: Checked, done: int, total: int) -> None:
            bar(done, total, found.package)
            if as_json:
                print_jsonl([_plain(found)])

        every = check(store, open_runtime(sandbox or None), pattern, rev, seed=seed, workers=workers, told=told)
    if not as_json:
        _report(every)
    for found in every:
        for line in found.notes:
            note(f"{found.package}: {line}")
    wrong = sum(not found.ok for found in every)
    note(f"{counted(len(every), 'package')} checked, {wrong or 'none'} wrong")
    if wrong:
        raise typer.Exit(1)


def _report(every: tuple[Checked, ...]) -> None:
    from rover.construct.calibrate import Kind

    kinds = get_args(Kind)
    rows = [
        (f.package, "sound" if f.ok else "wrong", len(f.problems) or "", *(_share(*f.count(k)) for k in kinds))
        for f in every
    ]
    heads = ("package", "", "records", "start", "attacks", "negatives", "ref", "alternat.")
    print(table(rows, heads, right=range(2, 8)))
    wrong = [
        (f.package, f"{file}: {field}" if field else file, reason) for f in every for file, field, reason in f.problems
    ]
    wrong += [
        (f.package, f"{r.kind} {r.case}" if r.case != r.kind else r.kind, f"{r.observed}: {r.reason}")
        for f in every if f.calibration for r in f.calibration.wrong
    ]  # fmt: skip
    if wrong:
        print()
        print(table(wrong, ("package", "case or field", "what is wrong")))


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
        "notes": list(found.notes),
        "cases": [{**asdict(row), "ok": row.ok} for row in calibration.rows] if calibration else None,
        "run": calibration.run if calibration else 0,
        "reused": calibration.reused if calibration else 0,
    }
