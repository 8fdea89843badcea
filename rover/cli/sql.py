"""`rover sql`: questions in SQL."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rover.cli.output import Json, note, plain, print_json, print_jsonl, table, width
from rover.cli.stores import IN_MEMORY, open_store
from rover_store.errors import UsageError

if TYPE_CHECKING:
    from rover_store.index.sql import Rows

#: rows of a table where no --limit is given
_ROWS = 1000
_CELL = 200
#: bytes of a query
_LONGEST = 1_000_000


def command(
    query: str = typer.Argument("", help="One SELECT; `-` reads it from stdin."),
    values: list[str] = typer.Argument(None, metavar="[VALUE]...", help="What `?` stands for, in order."),
    param: list[str] = typer.Option([], "--param", metavar="NAME=VALUE", help="What `:NAME` stands for."),
    file: Path = typer.Option(None, "--file", metavar="FILE", help="Read the query from a file."),
    as_csv: bool = typer.Option(False, "--csv", help="Print CSV."),
    limit: int = typer.Option(-1, "--limit", min=-1, help="At most so many rows; 0 for all.", show_default=False),
    timeout: float = typer.Option(60.0, "--timeout", min=0, metavar="SECONDS", help="Give up after; 0 for never."),
    tables: bool = typer.Option(False, "--tables", help="List the views."),
    schema: bool = typer.Option(False, "--schema", help="List the views with their columns."),
    database: bool = typer.Option(False, "--database", help="Ask the second database of config.toml instead."),
    as_json: bool = Json,
) -> None:
    """Ask the index in SQL: packages, history, evidence. Nothing can be changed. `rover help sql` has the views.

    With --json a stream, one object a line.

    Example: rover sql 'SELECT name, family FROM packages WHERE admitted = 0 LIMIT 5'
    """
    if tables or schema:
        _describe(columns=schema, as_json=as_json)
        return
    if as_csv and as_json:
        raise UsageError("--csv and --json: one of them")
    text = _query(query, file)
    if file is not None and query:
        values = [query, *(values or [])]
    store, given = open_store(), _given(values or [], param)
    if database:
        from rover_store.index.mirror import ask as ask_database

        found = ask_database(store, text, given, timeout=timeout or None)
    else:
        from rover_store.index.sql import ask

        found = ask(store, text, given, timeout=timeout or None)
    if as_csv:
        _csv(found, limit)
    elif as_json:
        names = _unique(found.columns)
        print_jsonl(dict(zip(names, map(_json, row), strict=True)) for row in _most(found, limit))
    else:
        _table(found, limit)
    if store.index.in_memory:
        note(IN_MEMORY)


def _query(query: str, file: Path | None) -> str:
    if file is not None:
        with file.open("rb") as source:
            raw = source.read(_LONGEST + 1)
    elif query == "-":
        source_of = getattr(sys.stdin, "buffer", None)
        raw = source_of.read(_LONGEST + 1) if source_of is not None else sys.stdin.read(_LONGEST + 1).encode()
    else:
        return query
    if len(raw) > _LONGEST:  # nor would SQLite take it, and a device never ends
        raise UsageError(f"{file or 'stdin'}: longer than {_LONGEST} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{file or 'stdin'}: not UTF-8") from None


def _given(values: list[str], params: list[str]) -> list[Any] | dict[str, Any]:
    if values and params:
        raise UsageError("--param and values for `?`: one of them")
    if not params:
        return [_value(v) for v in values]
    named = {}
    for text in params:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--param: {text!r} is not NAME=VALUE")
        named[name.lstrip(":@$")] = _value(value)
    return named


def _value(text: str) -> Any:
    """A number where the text is exactly how one is written, else the text."""
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if str(number) == text and abs(number) < 2**63:
            return number
    return text


def _most(found: Rows, limit: int) -> Iterator[tuple[Any, ...]]:
    return islice(found.rows, min(limit, sys.maxsize)) if limit > 0 else found.rows


def _csv(found: Rows, limit: int) -> None:
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\r\n")
    writer.writerow(found.columns)
    for row in _most(found, limit):
        writer.writerow(["" if v is None else v.hex() if isinstance(v, bytes) else v for v in row])


def _table(found: Rows, limit: int) -> None:
    most = min(limit, sys.maxsize) if limit > 0 else None if limit == 0 else _ROWS
    rows = list(islice(found.rows, None if most is None else most))
    more = limit < 0 and next(found.rows, None) is not None
    cells = [[_cell(v) for v in row] for row in rows]
    numbers = [
        i for i in range(len(found.columns)) if rows and all(isinstance(r[i], int | float | None) for r in rows)
    ]
    if 8 * len(found.columns) > width():
        print("\n\n".join(_record(found.columns, row) for row in cells))
    else:
        print(table(cells, found.columns, right=numbers))
    if more:
        note(f"the first {_ROWS} rows; --limit 0 shows all")


def _record(names: tuple[str, ...], row: list[str]) -> str:
    """A row of more columns than fit, one below the other."""
    room = max(map(len, names))
    lines = (f"{plain(name):<{room}}  {plain(value)}" for name, value in zip(names, row, strict=True))
    return "\n".join(line if len(line) <= width() else line[: width() - 1] + "…" for line in lines)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"


def _json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no such number
    return value


def _unique(names: tuple[str, ...]) -> list[str]:
    """Names of columns as keys: a second `a` is `a_2`."""
    out: list[str] = []
    for name in names:
        n = 1
        while (name if n == 1 else f"{name}_{n}") in out:
            n += 1
        out.append(name if n == 1 else f"{name}_{n}")
    return out


def _describe(*, columns: bool, as_json: bool) -> None:
    from rover_store.index.views import VIEWS, reference

    if as_json:
        print_json({name: dict(view.columns) if columns else view.row for name, view in VIEWS.items()})
    elif columns:
        print(reference().replace("**", "").rstrip())
    else:
        print(table([(name, view.row) for name, view in VIEWS.items()], ("view", "a row is")))
