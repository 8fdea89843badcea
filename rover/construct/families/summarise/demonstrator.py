"""The demonstrator of the summarise family: reads the request strictly, the tables by tool, computes in Python."""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from rover.construct.families.desk import (
    MARKS,
    NAME,
    Desk,
    Test,
    condition,
    conditions,
    decimal,
    names_in,
    read_all,
    rounded,
)
from rover.policy.protocol import PolicyFailure, PolicyView
from rover_store.records import Call, ToolCall

_PLACE = r"(?:the sheet `([^`]+)` of )?`([^`]+)`"
_IGNORE = (
    r"[^`\"\d]*\b(?:review needs|get this ready|piece of work|planning round|look at the data)\b[^`\"\d]*",
    r"An empty cell meets no condition, nor does NA in a column of numbers or dates",
    r"A row whose cell is empty \(or NA, in a column of numbers or dates\) does not meet a condition on it",
    r"Cells that are empty or say NA are left out of sums, averages, smallest and largest values",
    r"Sums, averages and extremes skip cells that are empty or say NA",
    r"Halves are rounded away from zero", r"Round halves away from zero",
    r"Leave every other file as it is and create no other file", r"Do not change, add or delete any other file",
    r"No other file may be changed, created or deleted",
)  # fmt: skip
_FUNCTIONS = {
    "the number of rows": "count", "the number of different values of": "count_distinct", "the sum of": "sum",
    "the average of": "mean", "the smallest": "min", "the largest": "max",
}  # fmt: skip
_WHAT = (
    r"(?:(the number of rows)"
    rf"|(the number of different values of|the sum of|the average of|the smallest|the largest) {NAME})"
    r"(?:,? (?:rounded )?to (\d+) decimals?)?"
)


@dataclass(slots=True)
class Reading:
    """The request as understood."""

    source: tuple[str | None, str] | None = None
    lookups: list[tuple[str | None, str, str, str]] = field(default_factory=list)
    tests: list[Test] = field(default_factory=list)
    groups: tuple[str, ...] = ()
    measures: list[tuple[str, str, str | None, int | None]] = field(default_factory=list)
    floor: Test | None = None
    order: tuple[str, bool] | None = None
    output: tuple[str | None, str] | None = None
    columns: tuple[str, ...] = ()


def read(instruction: str) -> Reading:
    """Parse the request. PolicyFailure where a sentence or a needed part cannot be read."""
    r = Reading()

    def lookup_last(m: re.Match[str]) -> None:
        r.lookups.append((m[1], m[2], m[3], m[4]))

    def lookup_first(m: re.Match[str]) -> None:
        r.lookups.append((m[3], m[4], m[1], m[2]))

    def measure(m: re.Match[str]) -> None:
        name, rows, phrase, column, places = m.groups()
        r.measures.append((name, _FUNCTIONS[rows or phrase], column, int(places) if places else None))

    def output(m: re.Match[str]) -> None:
        r.output, r.columns = (m[1], m[2]), names_in(m[3])

    read_all(instruction, [
        (rf"(?:Start from|The rows come from|Take the rows of) {_PLACE}",
         lambda m: setattr(r, "source", (m[1], m[2]))),
        (rf"Join {_PLACE} to it where {NAME} equals {NAME} there, and leave out rows without a partner", lookup_last),
        (rf"Add the columns of {_PLACE} to each row by matching {NAME} with {NAME} there, "
         r"dropping rows without a match",
         lookup_last),
        (rf"Look up {NAME} in the column {NAME} of {_PLACE}, and leave out rows that are not found there",
         lookup_first),
        (r"(?:Keep only rows where|Only rows count where|Use only the rows in which) (.+)",
         lambda m: r.tests.extend(conditions(m[1]))),
        (r"(?:Make one row for each|Group them by|The result has one row for each) "
         r"((?:combination of )?`.+`)(?: that is left)?",
         lambda m: setattr(r, "groups", names_in(m[1]))),
        (rf"The column {NAME} is {_WHAT}", measure),
        (rf"In {NAME} put {_WHAT}", measure),
        (rf"{NAME} holds {_WHAT}", measure),
        (r"(?:Of the result, keep only the rows where|In the end keep a group only if) (.+)",
         lambda m: setattr(r, "floor", condition(m[1]))),
        (rf"(?:Sort|Order) the result by {NAME}(?:,| in) "
         r"(largest first|smallest first|descending order|ascending order)",
         lambda m: setattr(r, "order", (m[1], m[2] in ("largest first", "descending order")))),
        (rf"Write the result to {_PLACE} as a[^`]+ with the columns (.+)", output),
        (rf"Save it as a[^`]+ in {_PLACE}, with the columns (.+)", output),
        (rf"Deliver a[^`]+ in {_PLACE} that has the columns (.+)", output),
    ], _IGNORE)  # fmt: skip
    for part, what in (
        (r.source, "source"),
        (r.groups, "grouping"),
        (r.measures, "measure"),
        (r.output, "output file"),
    ):
        if not part:
            raise PolicyFailure(f"the request names no {what}")
    return r


def plan(view: PolicyView, seed: int) -> Generator[ToolCall, Call, str]:
    """Read, join, keep, group, measure, sort, write."""
    asked = read(view.instruction)
    if not view.offers("write_table"):
        raise PolicyFailure("the tool write_table is needed and not offered")
    desk = Desk(view)
    assert asked.source
    assert asked.output
    rows = yield from desk.table(asked.source[1], asked.source[0])
    for sheet, path, left, right in asked.lookups:
        there = yield from desk.table(path, sheet)
        partners = {_key(p[right]): p for p in there if _known(p, right) and _key(p[right]) is not None}
        rows = [
            {**partners[_key(row[left])], **row} for row in rows if _known(row, left) and _key(row[left]) in partners
        ]
    rows = [row for row in rows if all(_known(row, t.column) and t.holds(row) for t in asked.tests)]
    result = summarise(rows, asked)
    if asked.floor:
        result = [row for row in result if asked.floor.holds(row)]
    result.sort(key=lambda row: [str(row[g]) for g in asked.groups])
    if asked.order:
        column, descending = asked.order
        result.sort(key=lambda row: _sortable(row[column]), reverse=descending)
    table = [[row[c] for c in asked.columns] for row in result]
    yield from desk.use(
        "write_table", path=asked.output[1], sheet=asked.output[0], columns=list(asked.columns), rows=table
    )
    return f"Wrote {len(table)} rows to {asked.output[1]}."


def summarise(rows: list[dict[str, Any]], asked: Reading) -> list[dict[str, Any]]:
    """One row a group, its measures computed exactly."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[g] if _known(row, g) else None for g in asked.groups), []).append(row)
    out = []
    for key, members in groups.items():
        made = dict(zip(asked.groups, key, strict=True))
        for name, fn, column, decimals in asked.measures:
            made[name] = _measure(members, fn, column, decimals)
        out.append(made)
    return out


def _measure(members: list[dict[str, Any]], fn: str, column: str | None, decimals: int | None) -> Any:
    if column is None:
        return len(members)
    cells = [m[column] for m in members if _known(m, column) and _key(m[column]) is not None]
    if fn == "count_distinct":
        return len({str(c) for c in cells})
    numbers = [decimal(c) for c in cells if str(c).strip().lower() not in MARKS]
    if not numbers:
        return None
    if fn == "mean":
        return rounded(sum(numbers, Decimal(0)) / len(numbers), decimals)
    value = {"sum": lambda: sum(numbers, Decimal(0)), "min": lambda: min(numbers), "max": lambda: max(numbers)}[fn]()
    return rounded(value, decimals)


def _known(row: dict[str, Any], column: str) -> bool:
    if column not in row:
        raise PolicyFailure(f"the tables have no column {column}")
    return True


def _key(cell: Any) -> str | None:
    """A cell as a join key: 7, 7.0 and "7" are one."""
    text = "" if cell is None else str(cell).strip()
    if not text:
        return None
    return text[:-2] if text.endswith(".0") else text


def _sortable(cell: Any) -> tuple[int, Any]:
    return (0, float(cell)) if isinstance(cell, int | float) else (1, str(cell))
