"""`rover log`: history."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import typer

from rover.cli.output import Json, note, now, plain, print_jsonl, table, utc, width
from rover.cli.show import component_letters
from rover.cli.stores import IN_MEMORY, open_store
from rover_store.errors import UsageError

if TYPE_CHECKING:
    from rover_store.history.log import LogEntry
    from rover_store.store import Store

_PAGE = 200
#: changes of one commit that JSON lists; the rest is counted
_CHANGES = 1000
#: several names that take more are counted instead
_NAMED = 40


def command(
    words: list[str] = typer.Argument(None, metavar="[WHAT]...", help="Ranges, packages (or globs), paths, revisions."),
    rev: str = typer.Option("HEAD", "--rev", metavar="REV", help="Where to begin."),
    component: str = typer.Option("", "--component", "-c", help="context, task, harness or verifier."),
    resource: str = typer.Option("", "--resource", metavar="NAME", help="A shared resource, KIND/NAME."),
    path: list[str] = typer.Option([], "--path", metavar="PATH", help="A file or folder of a package or of the tree."),
    case: str = typer.Option("", "--case", help="Show the candidates of a repair case instead."),
    since: str = typer.Option("", "--since", metavar="DATE", help="Since 2026-01-31, '2 weeks ago', yesterday (UTC)."),
    until: str = typer.Option("", "--until", metavar="DATE", help="Until then."),
    author: str = typer.Option("", "--author", metavar="REGEX", help="Whose name or address has this."),
    grep: str = typer.Option("", "--grep", metavar="REGEX", help="Whose message has this."),
    trailer: list[str] = typer.Option([], "--trailer", metavar="KEY[=VALUE]", help="With this trailer."),
    follow: bool = typer.Option(False, "--follow", help="Go on with the older name of a renamed package."),
    first_parent: bool = typer.Option(False, "--first-parent", help="Of a merge, follow the first parent alone."),
    reverse: bool = typer.Option(False, "--reverse", help="The oldest first."),
    limit: int = typer.Option(0, "--limit", min=0, help="At most so many; 0 for all."),
    oneline: bool = typer.Option(False, "--oneline", help="Short id and subject alone."),
    stat: bool = typer.Option(False, "--stat", help="With the files that each commit changed."),
    as_json: bool = Json,
) -> None:
    """Show the history of the store, a package, a component or a file, the newest first.

    A word is a range (`v1..main`), a path (`NAME/task/contract.json`), a package or a revision, in that order.
    Commits stand before their parents whatever their clocks said.

    Example: rover log --limit 10
    """
    from rover.ops.history import narrow, read_words
    from rover_store.history.log import log
    from rover_store.history.log_select import Filter

    store = open_store()
    if case:
        _case(store, case, as_json)
        return
    wanted = Filter(
        (), tuple(path), _date(since, "--since"), _date(until, "--until"), author or None, grep or None,
        tuple(_trailer(t) for t in trailer), follow, first_parent, reverse, _CHANGES if as_json else 100,
    )  # fmt: skip
    revs, wanted = read_words(store, words or (), wanted, rev)
    if revs and rev != "HEAD":
        raise UsageError(f"--rev {rev} and {revs.split()[0]}: name revisions in one way")
    wanted = narrow(wanted, component, resource)
    entries = log(store, revs or rev, wanted, limit or None)
    if as_json:
        _json(store, entries, stat)
    elif oneline or stat:
        _lines(store, entries, stat)
    else:
        _table(entries)
    if store.index.in_memory:
        note(IN_MEMORY)


def _table(entries: Iterator[LogEntry]) -> None:
    first = True
    while page := list(islice(entries, _PAGE)):
        text = table([_row(e) for e in page], ("commit", "date (UTC)", "subject", "packages"), whole=(2,))
        print(text if first else text.split("\n", 2)[2], flush=True)
        first = False
    if first:
        note("no commits")


def _row(entry: LogEntry) -> tuple[str, str, str, str]:
    touched: dict[str, list[str]] = {}
    for change in entry.changes:
        name, _, part = change.node.partition("/")
        if name == "resources":
            touched[part] = []
        else:
            touched.setdefault(name, []).extend([part] if part else [])
    packages = {name: parts for name, parts in touched.items() if "/" not in name}
    named = packages or touched
    what = ", ".join(n if "/" in n else f"{n}:{component_letters(p)}" for n, p in named.items())
    if entry.more or (len(named) > 1 and len(what) > _NAMED):
        what = f"{len(named)}{'+' if entry.more else ''} {'packages' if packages else 'resources'}"
    was = f" (was {entry.renamed})" if entry.renamed else ""
    return entry.id[:10], utc(entry.time), entry.subject, what + was


def _lines(store: Store, entries: Iterable[LogEntry], stat: bool) -> None:
    for entry in entries:
        was = f"  (was {entry.renamed})" if entry.renamed else ""
        print(plain(f"{entry.id[:10]} {entry.subject}{was}")[: width() if not stat else None])
        for change in _files(store, entry) if stat else ():
            print(plain(f"  {change['status'][0].upper()} {change['path']}"))
        sys.stdout.flush()


def _json(store: Store, entries: Iterable[LogEntry], stat: bool) -> None:
    def values() -> Iterator[dict[str, Any]]:
        for entry in entries:
            value = {**entry._asdict(), "changes": [c._asdict() for c in entry.changes]}
            yield {**value, "files": list(_files(store, entry))} if stat else value

    print_jsonl(values())


def _files(store: Store, entry: LogEntry) -> Iterator[dict[str, Any]]:
    from rover_store.history.log_files import files

    return (change._asdict() for change in islice(files(store, entry), _CHANGES))


def _case(store: Store, case: str, as_json: bool) -> None:
    from rover.ops.show import show
    from rover_store.cases import find_case

    data = show(store, find_case(store, case)[0]).data
    if as_json:
        print_jsonl(data.get("candidates", []))
        return
    rows = [
        ((c.get("commit") or "")[:10], c["mask"], c["status"], ", ".join(c.get("changed", [])))
        for c in data.get("candidates", [])
    ]
    print(table(rows, ("commit", "mask", "status", "changed"), right=(1,)))


def _trailer(text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    if not key:
        raise UsageError(f"--trailer: {text!r} is not KEY or KEY=VALUE")
    return key, value if equals else None


def _date(text: str, option: str) -> int | None:
    from rover_store.history.dates import parse_date

    if not text:
        return None
    try:
        return parse_date(text, now())
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
