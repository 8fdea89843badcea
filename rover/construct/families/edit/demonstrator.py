"""The demonstrator of the edit family: reads the request strictly, finds the rows, edits them by tool."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from rover.construct.families.desk import NAME, VALUE, Desk, Test, clean, conditions, read_all
from rover.policy.protocol import PolicyFailure, PolicyView
from rover_store.records import Call, ToolCall

#: more single-row edits than this, and the table is written as a whole (text formats) or by cell (workbooks)
MANY = 12
_PLACE = r"(?:the sheet `([^`]+)` of )?`([^`]+)`"
_IGNORE = (
    r"[^`\"\d]*\b(?:review needs|get this ready|piece of work|planning round|look at the data)\b[^`\"\d]*",
    r"An empty cell meets no condition, nor does NA in a column of numbers or dates",
    r"A row whose cell is empty \(or NA, in a column of numbers or dates\) does not meet a condition on it",
    r"All other cells of that table, its columns and the order of its rows stay as they are",
    r"Nothing else in that table may change, neither cells nor columns nor the order of rows",
    r"Leave every other file as it is and create no other file", r"Do not change, add or delete any other file",
    r"No other file may be changed, created or deleted",
)  # fmt: skip


@dataclass(slots=True)
class Reading:
    """The request as understood."""

    target: tuple[str | None, str] | None = None
    tests: list[Test] = field(default_factory=list)
    #: column, other column, sheet, path, tests there
    member: tuple[str, str, str | None, str, tuple[Test, ...]] | None = None
    column: str = ""
    value: str | int | float = ""


def read(instruction: str) -> Reading:
    """Parse the request. PolicyFailure where a sentence or a needed part cannot be read."""
    r = Reading()

    def member(m: re.Match[str]) -> None:
        r.member = (m[1], m[2], m[3], m[4], conditions(m[5]) if m[5] else ())

    def change(column: str, value: str) -> None:
        r.column = column
        r.value = value.strip('"') if value.startswith('"') else float(value) if "." in value else int(value)

    read_all(instruction, [
        (rf"(?:Edit|The table to edit in place is|Work directly in) {_PLACE}(?: in place)?",
         lambda m: setattr(r, "target", (m[1], m[2]))),
        (r"(?:Pick the rows where|It concerns the rows in which|Find the rows where) (.+)",
         lambda m: r.tests.extend(conditions(m[1]))),
        (rf"(?:Take a row only if its|A row counts only if its) {NAME} (?:stands|is found) in the column {NAME} "
         rf"of {_PLACE}(?:, among the rows there where (.+))?", member),
        (rf"Set {NAME} to ({VALUE}) in these rows", lambda m: change(m[1], m[2])),
        (rf"In these rows put ({VALUE}) into {NAME}", lambda m: change(m[2], m[1])),
        (rf"These rows get ({VALUE}) in the column {NAME}", lambda m: change(m[2], m[1])),
    ], _IGNORE)  # fmt: skip
    if not r.target:
        raise PolicyFailure("the request names no table to edit")
    if not r.column:
        raise PolicyFailure("the request gives no new value")
    if not r.tests and not r.member:
        raise PolicyFailure("the request does not say which rows")
    return r


def plan(view: PolicyView, seed: int) -> Generator[ToolCall, Call, str]:
    """Read, choose the rows, change them."""
    asked = read(view.instruction)
    desk = Desk(view)
    assert asked.target
    sheet, path = asked.target
    rows = yield from desk.table(path, sheet)
    if not rows:
        raise PolicyFailure(f"{path} has no rows")
    for column in (asked.column, *(t.column for t in asked.tests)):
        if column not in rows[0]:
            raise PolicyFailure(f"{path} has no column {column}")
    allowed: set[str] | None = None
    if asked.member:
        _, other_column, other_sheet, other, tests = asked.member
        there = yield from desk.table(other, other_sheet)
        allowed = {_key(o.get(other_column)) for o in there if all(t.holds(o) for t in tests)} - {""}
    chosen = [
        i for i, row in enumerate(rows)
        if all(t.holds(row) for t in asked.tests)
        and (allowed is None or _key(row.get(asked.member[0] if asked.member else "")) in allowed)
    ]  # fmt: skip
    yield from _change(desk, asked, rows, chosen)
    return f"Set {asked.column} in {len(chosen)} rows of {path}."


def _change(
    desk: Desk, asked: Reading, rows: list[dict[str, Any]], chosen: list[int]
) -> Generator[ToolCall, Call, None]:
    assert asked.target
    sheet, path = asked.target
    key = _unique_column(rows, asked.column)
    if len(chosen) <= MANY and key:
        for i in chosen:
            yield from desk.use(
                "edit_table", path=path, sheet=sheet, where={key: rows[i][key]}, set={asked.column: asked.value}
            )
    elif path.endswith(".xlsx"):
        yield from _by_cell(desk, asked, rows, chosen)
    else:
        columns = list(rows[0])
        for i in chosen:
            rows[i][asked.column] = asked.value
        table = [[row[c] for c in columns] for row in rows]
        yield from desk.use("write_table", path=path, columns=columns, rows=table)


def _by_cell(
    desk: Desk, asked: Reading, rows: list[dict[str, Any]], chosen: list[int]
) -> Generator[ToolCall, Call, None]:
    """All cells in one call, where the sheet is plain: a header in the first row and no empty row between."""
    assert asked.target
    sheet, path = asked.target
    overview = yield from desk.use("read_workbook", path=path)
    import json

    found = [s for s in json.loads(overview)["sheets"] if sheet is None or s["name"] == sheet]
    if not found or found[0]["rows"] not in (len(rows), len(rows) + 1):
        raise PolicyFailure(f"the sheet in {path} is not a plain table")
    letter = _letter(found[0]["header"].index(asked.column) + 1)
    cells = {f"{letter}{i + 2}": asked.value for i in chosen}
    yield from desk.use("edit_workbook", path=path, sheet=found[0]["name"], cells=cells)


def _unique_column(rows: list[dict[str, Any]], but: str) -> str | None:
    """A column whose cells are all there and all different."""
    for column in rows[0]:
        cells = Counter(_key(row[column]) for row in rows)
        if column != but and len(cells) == len(rows) and "" not in cells:
            return column
    return None


def _letter(number: int) -> str:
    out = ""
    while number:
        number, rest = divmod(number - 1, 26)
        out = chr(65 + rest) + out
    return out


def _key(cell: Any) -> str:
    """A cell as a key: 7, 7.0 and "7" are one."""
    text = "" if cell is None else str(clean(cell))
    return text[:-2] if text.endswith(".0") else text
