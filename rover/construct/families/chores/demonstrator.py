"""The demonstrator of chores: reads the request strictly, does one part after the other, one row a turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from rover.construct.families.desk import NAME, Desk, parse, read_all
from rover.policy.protocol import PolicyFailure, PolicyView
from rover_store.records import Call, ToolCall


@dataclass(frozen=True, slots=True)
class Found:
    """Where a looked-up value stands: column, the column that leads to it, path."""

    value: str
    key: str
    path: str


@dataclass(frozen=True, slots=True)
class Report:
    key: str
    value: str
    source: str
    column: str
    wanted: str
    path: str
    found: Found | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    column: str
    path: str
    key: str
    row: str
    value: str = ""
    found: Found | None = None


Step = Report | Edit
_ROWS = rf'the rows of {NAME} where {NAME} is "([^"]*)"'
_VALUE = rf"the {NAME} of its {NAME} in {NAME}"
_TO = rf'(?:"([^"]*)"|(-?\d+)|{_VALUE})'
_IGNORE = (r"Change nothing else", r"Leave all else as it is")


def read(instruction: str) -> tuple[Step, ...]:
    """Parse the request. PolicyFailure where a sentence cannot be read."""
    steps: list[Step] = []

    def take(make: Callable[[tuple[Any, ...]], Step]) -> Callable[[re.Match[str]], None]:
        return lambda m: steps.append(make(m.groups()))

    def plain(g: tuple[Any, ...]) -> Step:
        return Report(g[0], g[1], g[2], g[3], g[4], g[5])

    def looked_up(g: tuple[Any, ...]) -> Step:
        source, column, wanted, key, value, shared, path, out = g
        return Report(key, value, source, column, wanted, out, Found(value, shared, path))

    def edit(g: tuple[Any, ...]) -> Step:
        column, path, key, row, text, number, value, shared, place = g
        found = Found(value, shared, place) if value else None
        return Edit(column, path, key, row, text if text is not None else number or "", found)

    def turned(g: tuple[Any, ...]) -> Step:
        return edit((g[1], g[0], *g[2:]))

    read_all(instruction, [
        (rf"(?:Copy|Put) {NAME} and {NAME} of {_ROWS} (?:into|to) {NAME}", take(plain)),
        (rf"(?:For|From) {_ROWS} (?:write|list) {NAME} and {_VALUE} (?:to|in) {NAME}", take(looked_up)),
        (rf"Set {NAME} in {NAME} where {NAME} is (-?\d+) to {_TO}", take(edit)),
        (rf"In {NAME} set {NAME} where {NAME} is (-?\d+) to {_TO}", take(turned)),
    ], _IGNORE)  # fmt: skip
    if not steps:
        raise PolicyFailure("the request asks for nothing")
    return tuple(steps)


def plan(view: PolicyView, seed: int) -> Generator[ToolCall, Call, str]:
    """Each part in turn: look, then write."""
    desk = Desk(view)
    for step in read(view.instruction):
        yield from report(desk, step) if isinstance(step, Report) else change(desk, step)
    return ""


def report(desk: Desk, step: Report) -> Generator[ToolCall, Call, None]:
    """A row a turn; a value that stands elsewhere is looked up just before its row is written."""
    second = step.found.key if step.found else step.value
    rows = yield from look(desk, step.source, (step.key, second), {step.column: step.wanted})
    if not rows:
        raise PolicyFailure(f"no row of {step.source} has {step.wanted} in {step.column}")
    for key, there in rows:
        value = (yield from value_of(desk, step.found, there)) if step.found else there
        yield from desk.use("append_rows", path=step.path, columns=[step.key, step.value], rows=[[key, value]])


def change(desk: Desk, step: Edit) -> Generator[ToolCall, Call, None]:
    """One cell; a value that stands elsewhere is looked up by what the row says."""
    value = step.value
    if step.found:
        rows = yield from look(desk, step.path, (step.found.key,), {step.key: step.row})
        if len(rows) != 1:
            raise PolicyFailure(f"{len(rows)} rows of {step.path} have {step.row} in {step.key}")
        value = yield from value_of(desk, step.found, rows[0][0])
    yield from set_cell(desk, step, value)


def set_cell(desk: Desk, step: Edit, value: str) -> Generator[ToolCall, Call, None]:
    yield from desk.use("edit_table", path=step.path, where={step.key: step.row}, set={step.column: value})


def value_of(desk: Desk, found: Found, shared: str) -> Generator[ToolCall, Call, str]:
    rows = yield from look(desk, found.path, (found.value,), {found.key: shared})
    if len(rows) != 1:
        raise PolicyFailure(f"{len(rows)} rows of {found.path} have {shared} in {found.key}")
    return rows[0][0]


def look(
    desk: Desk, path: str, columns: tuple[str, ...], where: dict[str, str], limit: int | None = None
) -> Generator[ToolCall, Call, list[list[str]]]:
    """Some columns of the rows that match."""
    text = yield from desk.use("read_table", path=path, columns=list(columns), where=where, limit=limit)
    return [[str(cell) for cell in row] for row in parse(text)["rows"]]
