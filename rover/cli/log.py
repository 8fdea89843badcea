"""`rover log`: history."""

from __future__ import annotations

import typer

from rover.cli.output import Json, note, print_jsonl, table, utc
from rover.cli.show import component_letters
from rover.cli.stores import open_store
from rover_store.errors import NotFound, UsageError


def command(
    package: str = typer.Argument("", help="Package (or a glob) that the commits changed; empty for all."),
    rev: str = typer.Option("HEAD", "--rev", metavar="REV", help="Where to begin."),
    component: str = typer.Option("", "--component", "-c", help="context, task, harness or verifier."),
    case: str = typer.Option("", "--case", help="Show the candidates of a repair case instead."),
    since: str = typer.Option("", "--since", metavar="DATE", help="Commits since YYYY-MM-DD (UTC)."),
    limit: int = typer.Option(0, "--limit", min=0, help="At most so many; 0 for all."),
    as_json: bool = Json,
) -> None:
    """Show the history of the store, a package or a component, the newest first.

    Example: rover log --limit 10
    """
    store = open_store()
    if component and component not in ("context", "task", "harness", "verifier"):
        raise UsageError(f"--component: {component!r} is not context, task, harness or verifier")
    if case:
        _case(case, as_json)
        return
    entries = store.log(
        rev, package=package or None, component=component or None, since=_day(since), limit=limit or None
    )
    if as_json:
        print_jsonl({**e._asdict(), "changes": [c._asdict() for c in e.changes]} for e in entries)
        return
    rows = []
    for entry in entries:
        touched: dict[str, list[str]] = {}
        for change in entry.changes:
            name, _, part = change.node.partition("/")
            if name != "resources":
                touched.setdefault(name, []).extend([part] if part else [])
        what = ", ".join(f"{n}:{component_letters(parts)}" for n, parts in list(touched.items())[:3])
        more = f" +{len(touched) - 3}" if len(touched) > 3 else ""
        rows.append((entry.id[:10], utc(entry.time), entry.subject, what + more))
    if not rows:
        if package and not _known(package):
            raise NotFound("package", package, hint="`rover list` shows all names")
        note("no commits")
        return
    print(table(rows, ("commit", "date (UTC)", "subject", "packages")))


def _known(package: str) -> bool:
    return package == "*" or bool(open_store().packages("HEAD", package))


def _case(case: str, as_json: bool) -> None:
    from rover.ops.show import show

    store = open_store()
    if case not in store.cases():
        raise NotFound("case", case, hint="known: " + (", ".join(sorted(store.cases())[:5]) or "none"))
    data = show(store, case).data
    if as_json:
        print_jsonl(data.get("candidates", []))
        return
    rows = [
        ((c.get("commit") or "")[:10], c["mask"], c["status"], ", ".join(c.get("changed", [])))
        for c in data.get("candidates", [])
    ]
    print(table(rows, ("commit", "mask", "status", "changed"), right=(1,)))


def _day(text: str) -> int | None:
    import datetime

    if not text:
        return None
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--since: {text!r} is not a date (YYYY-MM-DD)") from None
    return int(datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.UTC).timestamp())
