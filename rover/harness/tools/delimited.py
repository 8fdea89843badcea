"""csv and tsv with the place of every field, so that an edit changes a field and no other character."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from rover.harness.tools.paths import ToolError
from rover.harness.tools.values import matches, written


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its value, and where its text (quotes included) lies."""

    value: str
    start: int
    end: int
    quoted: bool


Row = list[Field]


def delimiter(path: str, text: str) -> str:
    """Tab for .tsv; for the others the candidate that splits the first lines most evenly, else a comma."""
    if path.lower().endswith((".tsv", ".tab")):
        return "\t"
    lines = [re.sub(r'"(?:[^"]|"")*"', "", line) for line in text[:20_000].splitlines()[:20] if line]
    best, score = ",", 0
    for mark in (",", ";", "\t", "|"):
        counts = [line.count(mark) for line in lines]
        if counts and counts[0] and sum(c == counts[0] for c in counts) * counts[0] > score:
            best, score = mark, sum(c == counts[0] for c in counts) * counts[0]
    return best


def parse(text: str, mark: str) -> list[Row]:
    """All rows that hold anything. A quote that is not closed takes the rest of the text."""
    part = re.escape(mark)
    pattern = re.compile(rf'"([^"]*(?:""[^"]*)*)(?:"|\Z)([^{part}\r\n]*)|([^{part}\r\n]*)')
    rows: list[Row] = []
    row: Row = []
    at, size = 0, len(text)
    while at < size or row:
        found = pattern.match(text, at)
        assert found is not None  # the last alternative matches the empty string
        quoted = found.group(1) is not None
        value = found.group(1).replace('""', '"') + found.group(2) if quoted else found.group(3)
        row.append(Field(value, found.start(), found.end(), quoted))
        at = found.end()
        if at < size and text[at] == mark:
            at += 1
            if at == size:
                row.append(Field("", at, at, False))
                rows.append(row)
                break
            continue
        if len(row) > 1 or row[0].value or row[0].quoted:
            rows.append(row)
        row = []
        at += 2 if text.startswith("\r\n", at) else 1
    return rows


def values(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Header and rows as text; a short row is filled up, a long one keeps its extra fields out."""
    if not rows:
        return [], []
    header = [f.value for f in rows[0]]
    width = len(header)
    return header, [[f.value for f in row[:width]] + [""] * (width - len(row)) for row in rows[1:]]


def edit(path: str, text: str, where: dict[str, Any], changes: dict[str, Any]) -> tuple[str, int]:
    """The text with the matching rows changed, and how many rows matched."""
    mark = delimiter(path, text)
    rows = parse(text, mark)
    header = [f.value for f in rows[0]] if rows else []
    place = {name: header.index(name) for name in header}
    for name in (*where, *changes):
        if name not in place:
            raise ToolError(f"{path}: no column {name!r}; it has {', '.join(header) or 'none'}")
        if header.count(name) > 1:
            raise ToolError(f"{path}: {header.count(name)} columns are called {name!r}")
    pieces: list[str] = []
    done = changed = 0
    for number, row in enumerate(rows[1:], 2):
        if not all(place[n] < len(row) and matches(row[place[n]].value, v) for n, v in where.items()):
            continue
        changed += 1
        for name, value in sorted(changes.items(), key=lambda item: place[item[0]]):
            if place[name] >= len(row):
                raise ToolError(f"{path}: row {number} has only {len(row)} fields, {name!r} is not there")
            field = row[place[name]]
            pieces += [text[done : field.start], quote(written(value), mark, field.quoted)]
            done = field.end
    return "".join(pieces) + text[done:], changed


def append(path: str, text: str, columns: list[str], rows: list[list[Any]]) -> str:
    """The text with rows at its end, in the order of its own header."""
    mark = delimiter(path, text)
    found = parse(text, mark)
    header = [f.value for f in found[0]] if found else []
    if sorted(header) != sorted(columns):
        raise ToolError(f"{path}: its columns are {', '.join(header) or 'none'}, not {', '.join(columns)}")
    ends = "\r\n" if "\r\n" in text else "\n"
    places = [columns.index(name) for name in header]
    lines = [mark.join(quote(written(row[at]), mark) for at in places) for row in rows]
    return text + ("" if text.endswith("\n") else ends) + "".join((line or '""') + ends for line in lines)


def quote(value: str, mark: str, always: bool = False) -> str:
    """A field as it is written: in quotes where it must be, or where the old one was."""
    if always or mark in value or '"' in value or "\n" in value or "\r" in value:
        return '"' + value.replace('"', '""') + '"'
    return value


def render(mark: str, columns: list[str], rows: list[list[Any]]) -> str:
    """A whole table, one line a row."""
    lines = [mark.join(quote(written(v), mark) for v in row) for row in (columns, *rows)]
    return "".join(line + "\n" if line else '""\n' for line in lines)
