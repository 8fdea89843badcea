"""The demonstrator of the memo family: reads the request strictly, the tables by tool, writes a list of figures."""

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
    clean,
    conditions,
    decimal,
    read_all,
    rounded,
    split_outside,
)
from rover.policy.protocol import PolicyFailure, PolicyView
from rover_store.records import Call, ToolCall

_PLACE = r"((?:the sheet `[^`]+` of )?`[^`]+`)"
_IGNORE = (
    r"[^`\"\d]*\b(?:board meets soon|prepare a memo|memo is needed)\b[^`\"\d]*",
    r"Each figure stands in one line with its label, the label as it is written here",
    r"Keep every label as it is written here, in one line with its figure",
    r"(?:Name|Say at the end which|List) (?:the )?(?:source )?files [^`\"\d]*paths",
    r"An empty cell meets no condition[^`\"\d]*", r"A row whose cell is empty[^`\"\d]*",
    r"Cells that are empty or say NA are left out[^`\"\d]*", r"Sums, averages and extremes skip[^`\"\d]*",
    r"Halves are rounded away from zero", r"Round halves away from zero",
    r"Leave every other file as it is and create no other file", r"Do not change, add or delete any other file",
    r"No other file may be changed, created or deleted",
)  # fmt: skip
#: what a figure may be: pattern of its words -> function; the column or group stands in the first names
_WHAT = (
    (rf"the number of rows of {_PLACE}", "count"),
    (rf"the number of different values of {NAME} in {_PLACE}", "count_distinct"),
    (rf"the sum of {NAME} in {_PLACE}", "sum"),
    (rf"the average of {NAME} in {_PLACE}", "mean"),
    (rf"the smallest {NAME} in {_PLACE}", "min"),
    (rf"the largest {NAME} in {_PLACE}", "max"),
    (rf"the earliest {NAME} in {_PLACE}", "earliest"),
    (rf"the latest {NAME} in {_PLACE}", "latest"),
    (rf"the {NAME} with the most rows in {_PLACE}", "most_rows"),
    (rf"the {NAME} with the largest sum of {NAME} in {_PLACE}", "largest_sum"),
)
_PARTNER = re.compile(
    rf"rows whose {NAME} is found in the column {NAME} of {_PLACE}(?: among the rows there where (.+))?"
)

Place = tuple[str | None, str]


@dataclass(slots=True)
class Wanted:
    """One figure as understood."""

    label: str
    fn: str
    names: tuple[str, ...]
    place: Place
    decimals: int | None = None
    tests: tuple[Test, ...] = ()
    partner: tuple[str, str, Place, tuple[Test, ...]] | None = None


@dataclass(slots=True)
class Reading:
    path: str = ""
    figures: list[Wanted] = field(default_factory=list)


def read(instruction: str) -> Reading:
    """Parse the request. PolicyFailure where a sentence or a needed part cannot be read."""
    r = Reading()

    def figure(m: re.Match[str]) -> None:
        r.figures.append(_wanted(m[1], m[2]))

    read_all(instruction, [
        (rf"Write the memo in Markdown to {NAME}", lambda m: setattr(r, "path", m[1])),
        (rf"The memo goes to {NAME}, in Markdown", lambda m: setattr(r, "path", m[1])),
        (rf"Put the memo into {NAME} as Markdown text", lambda m: setattr(r, "path", m[1])),
        (r'State "([^"]+)", (the .+)', figure),
        (r'Under "([^"]+)" give (the .+)', figure),
        (r'The figure "([^"]+)" is (the .+)', figure),
    ], _IGNORE)  # fmt: skip
    if not r.path or not r.figures:
        raise PolicyFailure(f"the request names no {'file for the memo' if not r.path else 'figure'}")
    return r


def _wanted(label: str, words: str) -> Wanted:
    what, *rest = split_outside(words, r",\s+")
    for pattern, fn in _WHAT:
        found = re.fullmatch(pattern, what)
        if found:
            *names, where = found.groups()
            wanted = Wanted(label, fn, tuple(names), _place(where))
            break
    else:
        raise PolicyFailure(f"cannot read the figure: {what!r}")
    for part in rest:
        places = re.fullmatch(r"rounded to (\d+) decimals?", part)
        partner = _PARTNER.search(part)
        if places:
            wanted.decimals = int(places[1])
        elif partner:
            left, right, where, said = partner.groups()
            wanted.partner = (left, right, _place(where), conditions(said) if said else ())
        elif part.startswith("counting only rows where "):
            wanted.tests = conditions(part.removeprefix("counting only rows where "))
        else:
            raise PolicyFailure(f"cannot read: {part!r}")
    return wanted


def _place(text: str) -> Place:
    names = re.findall(NAME, text)
    return (names[0], names[1]) if len(names) == 2 else (None, names[0])


def plan(view: PolicyView, seed: int) -> Generator[ToolCall, Call, str]:
    """Read each table once, work out the figures, write the memo."""
    asked = read(view.instruction)
    if not view.offers("write_file"):
        raise PolicyFailure("the tool write_file is needed and not offered")
    desk = Desk(view)
    tables: dict[Place, list[dict[str, Any]]] = {}
    for figure in asked.figures:
        for place in (figure.place, *((figure.partner[2],) if figure.partner else ())):
            if place not in tables:
                tables[place] = yield from desk.table(place[1], place[0])
    lines = [f"- {figure.label}: {_value(figure, tables)}" for figure in asked.figures]
    sources = sorted({place[1] for place in tables})
    text = "# Memo\n\n" + "\n".join(lines) + "\n\nSources: " + ", ".join(f"`{s}`" for s in sources) + "\n"
    yield from desk.use("write_file", path=asked.path, content=text)
    return f"The memo with {len(lines)} figures is in {asked.path}."


def _value(figure: Wanted, tables: dict[Place, list[dict[str, Any]]]) -> str:
    rows = [row for row in tables[figure.place] if all(t.holds(_having(row, t.column)) for t in figure.tests)]
    if figure.partner:
        left, right, place, tests = figure.partner
        there = [p for p in tables[place] if all(t.holds(_having(p, t.column)) for t in tests)]
        known = {_key(_having(p, right)[right]) for p in there} - {""}
        rows = [row for row in rows if _key(_having(row, left)[left]) in known]
    found = _measured(figure, rows)
    if found is None:
        raise PolicyFailure(f"there is nothing to state for {figure.label!r}")
    return str(found)


def _measured(figure: Wanted, rows: list[dict[str, Any]]) -> Any:
    if figure.fn == "count":
        return len(rows)
    first = figure.names[0]
    cells = [clean(_having(row, first)[first]) for row in rows]
    if figure.fn == "count_distinct":
        return len({str(c) for c in cells if c not in (None, "")})
    if figure.fn in ("most_rows", "largest_sum"):
        return _foremost(figure, rows, cells)
    known = [c for c in cells if c not in (None, "") and str(c).lower() not in MARKS]
    if not known:
        return None
    if figure.fn in ("earliest", "latest"):
        days = [str(c)[:10] for c in known]
        return min(days) if figure.fn == "earliest" else max(days)
    numbers = [decimal(c) for c in known]
    total = sum(numbers, Decimal(0))
    value = {"sum": total, "mean": total / len(numbers), "min": min(numbers), "max": max(numbers)}[figure.fn]
    return rounded(value, figure.decimals)


def _foremost(figure: Wanted, rows: list[dict[str, Any]], groups: list[Any]) -> Any:
    """The group with the most rows or the largest sum."""
    sizes: dict[str, Decimal] = {}
    for row, group in zip(rows, groups, strict=True):
        amount = Decimal(1)
        if figure.fn == "largest_sum":
            column = figure.names[1]
            cell = clean(_having(row, column)[column])
            amount = decimal(cell) if cell not in (None, "") and str(cell).lower() not in MARKS else Decimal(0)
        sizes[str(group)] = sizes.get(str(group), Decimal(0)) + amount
    return max(sizes, key=lambda g: sizes[g]) if sizes else None


def _having(row: dict[str, Any], column: str) -> dict[str, Any]:
    if column not in row:
        raise PolicyFailure(f"the table has no column {column}")
    return row


def _key(cell: Any) -> str:
    text = "" if cell is None else str(cell).strip()
    return text[:-2] if text.endswith(".0") else text
