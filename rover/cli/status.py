"""`rover status`: what needs attention."""

from __future__ import annotations

import typer

from rover.cli.output import Json, counted, print_json, say, table, wrapped
from rover.cli.stores import open_store


def command(
    pattern: str = typer.Argument("*", help="Glob on names."),
    limit: int = typer.Option(20, "--limit", min=0, help="Rows of a table; 0 for all."),
    as_json: bool = Json,
) -> None:
    """Say what is stale, without evidence, or under repair.

    Example: rover status
    """
    from dataclasses import asdict

    from rover.ops.status import status

    found = status(open_store(), pattern)
    if as_json:
        stale, cases = ([row._asdict() for row in rows] for rows in (found.stale, found.open_cases))
        print_json({**asdict(found), "stale": stale, "open_cases": cases})
        return
    say(f"on {found.branch} at {found.head[:12] or 'no commit'}, {counted(found.packages, 'package')}")
    for branch in found.open_merges:
        say(f"\na merge into {branch} waits for you")
        say(f"  next: `rover merge --list --into {branch}`; see `rover help merge`")
    if found.stale:
        rows = [
            (s.package, s.component, s.target, s.recorded[:7], s.present[:7] if s.present else "gone")
            for s in found.stale[: limit or None]
        ]
        packages = len({s.package for s in found.stale})
        say(f"\nstale: {counted(packages, 'package')} built against a version that is no longer the present one")
        print(table(rows, ("package", "component", "built against", "then", "now")))
        _more(len(found.stale), limit)
        print("  next: `rover repair NAME --fcr`; if it fits, `rover commit DIR --fresh`")
    if found.without_evidence:
        names = found.without_evidence
        some = f"no rollouts yet for {len(names)}: {', '.join(names[:5])}{' ...' if len(names) > 5 else ''}"
        say(f"\n{wrapped(some, '  ')}")
        print("  next: `rover run NAME --policy ...`; see `rover help policies`")
    if found.open_cases:
        print("\nopen repair cases")
        print(table([(c.case, c.package, c.outcome, c.reason) for c in found.open_cases[: limit or None]],
                    ("case", "package", "outcome", "reason")))  # fmt: skip
        _more(len(found.open_cases), limit)
    if not (found.stale or found.without_evidence or found.open_cases or found.open_merges) and found.packages:
        print("nothing is stale, all packages have evidence, no case is open")


def _more(number: int, limit: int) -> None:
    if limit and number > limit:
        say(f"... and {number - limit} more; --limit 0 shows all")
