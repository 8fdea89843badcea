"""`rover gc`: collect what nothing needs, and bring many packs into one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import typer

from rover.cli.output import Json, counted, note, print_json, progress, table, wrapped
from rover.cli.sizes import size
from rover.cli.stores import open_store
from rover_store.errors import UsageError

if TYPE_CHECKING:
    from rover_store.care.gc import GcReport

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "": 1}


def command(
    yes: bool = typer.Option(False, "--yes", "-y", help="Do it; without this, only say what would go."),
    grace: str = typer.Option("14d", "--grace", metavar="TIME", help="What is younger stays: 90s, 12h, 14d, 2w."),
    forget: str = typer.Option(
        "", "--forget-operations-before", metavar="DATE",
        help="Forget older operations, and the heads that only they keep. Never done by itself.",
    ),
    as_json: bool = Json,
) -> None:  # fmt: skip
    """Remove objects that nothing needs and bring many packs into one. A dry run unless `--yes`.

    Kept is all that branches, tags, cases, the operation log (so `undo` still works), pins and evidence reach, and
    what is younger than the grace period. Readers go on meanwhile; a kill at any time loses nothing.

    Example: rover gc
    """
    from rover.ops.care import collect

    with progress("collecting") as bar:
        report = collect(
            open_store(), dry_run=not yes, grace=seconds(grace), forget_before=date(forget) if forget else None,
            progress=lambda what, done, total: bar(done, total, what),
        )  # fmt: skip
    if as_json:
        print_json(_json(report))
        return
    _print(report)


def seconds(text: str) -> float:
    """`14d` in seconds. UsageError for what is no length of time."""
    match = re.fullmatch(r"(\d{1,9})([smhdw]?)", text)
    if match is None:
        raise UsageError(f"--grace: {text!r} is no length of time", hint="90s, 30m, 12h, 14d or 2w")
    return int(match[1]) * _UNITS[match[2]]


def date(text: str, option: str = "--forget-operations-before") -> int:
    """A date, UTC, in seconds since 1970: 2026-01-31, 2026-01-31T12:00, or the number itself."""
    import datetime

    if re.fullmatch(r"\d{5,12}", text):
        return int(text)
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option}: {text!r} is no date", hint="2026-01-31 or 2026-01-31T12:00") from None
    return int(found.replace(tzinfo=found.tzinfo or datetime.UTC).timestamp())


def _json(report: GcReport) -> dict[str, object]:
    parts = [{**p._asdict(), "gone": [k._asdict() for k in p.gone]} for p in report.repositories]
    return {"dry_run": report.dry_run, "freed": report.freed, "operations_forgotten": report.forgotten,
            "repositories": parts}  # fmt: skip


def _print(report: GcReport) -> None:
    rows = [(p.repository, k.kind, k.objects, size(k.size)) for p in report.repositories for k in p.gone]
    if rows:
        print(table(rows, ("repository", "gone", "objects", "size"), right=(2, 3)))
    for part in report.repositories:
        packs = counted(part.packs, "pack")
        packs += f" to {part.packs_after}" if part.packs != part.packs_after else ""
        line = f"{part.repository}: {counted(part.reached, 'object')} needed, {part.young} young, {packs}"
        print(wrapped(f"{line}, {size(part.size)}", "  "))
    if report.forgotten:
        print(f"{counted(report.forgotten, 'operation')} {'would be ' if report.dry_run else ''}forgotten")
    print(f"{'would free' if report.dry_run else 'freed'} {size(max(0, report.freed))}")
    if report.dry_run:
        note("nothing was changed; `rover gc --yes` does it")
