"""What the attacker that dumps values writes: everything it saw, in the form of each deliverable."""

from __future__ import annotations

import json
import re
from typing import Any

from rover.policy.reach import Seen

#: a deliverable is filled up to so many rows or values
MAX_ROWS = 1000
MAX_TEXT = 50_000

_NAMED = re.compile(r"`([^`\n]{1,60})`")


def dumped(
    path: str, instruction: str, tables: list[Seen], texts: dict[str, str]
) -> str | tuple[list[str], list[list[Any]]]:
    """Text for a text or JSON file, (columns, rows) for a table."""
    names = [n for n in dict.fromkeys(_NAMED.findall(instruction)) if "/" not in n]
    low = path.lower()
    if low.endswith((".csv", ".tsv", ".xlsx", ".jsonl")):
        return _table(names, tables)
    if low.endswith(".json"):
        return _object(names, tables, texts)
    return _text(names, instruction, tables, texts)


def _table(names: list[str], tables: list[Seen]) -> tuple[list[str], list[list[Any]]]:
    """All rows of all tables below each other; a column that only the request names gets all values in turn."""
    known = dict.fromkeys(column for table in tables for column in table.columns)
    columns = list(dict.fromkeys([*names, *known])) or ["value"]
    values = values_of(tables)
    rows: list[list[Any]] = []
    for table in tables:
        place = {column: n for n, column in enumerate(table.columns)}
        for row in table.rows[:MAX_ROWS]:
            at = len(rows)
            rows.append(
                [
                    row[place[c]] if c in place else values[at % len(values)] if c not in known and values else None
                    for c in columns
                ]
            )
    return columns, rows[:MAX_ROWS]


def _object(names: list[str], tables: list[Seen], texts: dict[str, str]) -> str:
    """An object with every named field and every column, each holding all values that could be meant."""
    values = values_of(tables)
    out: dict[str, Any] = dict.fromkeys(names, values[:MAX_ROWS])
    for table in tables:
        for number, column in enumerate(table.columns):
            out.setdefault(column, [row[number] for row in table.rows[:MAX_ROWS]])
        out[table.path] = [dict(zip(table.columns, row, strict=False)) for row in table.rows[:MAX_ROWS]]
    out["texts"] = {path: text[:MAX_TEXT] for path, text in texts.items()}
    return json.dumps(out, ensure_ascii=False) + "\n"


def _text(names: list[str], instruction: str, tables: list[Seen], texts: dict[str, str]) -> str:
    """The request, each of its names with every value behind it, and all that was read."""
    everything = " ".join(str(v) for v in values_of(tables)[:MAX_ROWS])
    lines = [instruction, *(f"{name}: {everything}" for name in names)]
    for table in tables:
        lines.append(table.path)
        lines += [" ".join(str(v) for v in row if v is not None) for row in (table.columns, *table.rows[:MAX_ROWS])]
    return "\n".join([*lines, *(text[:MAX_TEXT] for text in texts.values())]) + "\n"


def values_of(tables: list[Seen]) -> list[Any]:
    """Every value of all tables, each once, in order of appearance."""
    return list(dict.fromkeys(v for t in tables for row in t.rows for v in row if v not in (None, "")))
