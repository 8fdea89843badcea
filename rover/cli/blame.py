"""`rover blame`: who last changed each field of a record, or each line of a text."""

from __future__ import annotations

import json
from typing import Any

import typer

from rover.cli.output import Json, Rev, print_jsonl, say, table, utc
from rover.cli.stores import open_store


def command(
    what: str = typer.Argument(..., help="PACKAGE, PACKAGE/component, PACKAGE/FILE or resources/KIND/NAME/FILE."),
    field: str = typer.Option("", "--field", metavar="FIELD", help="This field and what is below it, or a glob."),
    follow: bool = typer.Option(False, "--follow", help="Go on with the older name of a renamed package."),
    rev: str = Rev,
    as_json: bool = Json,
) -> None:
    """Say who last changed each field of a record, or each line of a text.

    Members of a list are named by their id: requirements[r1].statement.

    Example: rover blame my-task --field title
    """
    from rover_store.history.blame import blame

    rows = blame(open_store(), what, rev, field or None, follow=follow)
    if as_json:
        print_jsonl(row._asdict() for row in rows)
        return
    several = len({row.file for row in rows}) > 1
    file = ""
    shown: list[tuple[str, str, str, str, str]] = []
    for row in rows:
        if several and row.file != file:
            _print(shown)
            shown, file = [], row.file
            say(row.file)
        author = row.author.partition(" <")[0]
        shown.append((row.commit[:10], utc(row.time, "%Y-%m-%d"), author, row.field, _value(row.value)))
    _print(shown, last=True)


def _print(rows: list[tuple[str, str, str, str, str]], *, last: bool = False) -> None:
    if rows:
        print(table(rows, ("commit", "date", "author", "field", "value"), whole=(3,)))
        if not last:
            print()


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:199] + "…"
