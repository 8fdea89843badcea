"""Tables that can be changed and written back in the file's own form: csv, tsv, xlsx, json, jsonl."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from rover.verify.checklib.read import decode, json_value, sheet_title, workbook
from rover.verify.checklib.values import is_empty
from rover.verify.mutate.state import Nothing, State


@dataclass
class Grid:
    """Header and rows, both to be changed in place. `render` gives the file's bytes; text is written as text."""

    header: list[str]
    rows: list[list[Any]]
    kind: str
    _render: Callable[[Grid], bytes]

    def render(self) -> bytes:
        return self._render(self)

    def at(self, column: str) -> int:
        if column not in self.header:
            raise Nothing(f"there is no column {column!r}")
        return self.header.index(column)


def load(state: State, path: str, arguments: Mapping[str, Any]) -> Grid:
    """The table of a file. Nothing or Unreadable where it holds none."""
    data, ending = state.read(path), PurePosixPath(path).suffix.lower()
    if ending == ".xlsx":
        return _workbook(state, path, arguments.get("sheet"))
    if ending == ".json":
        return _json(state, path, arguments.get("field"))
    if ending == ".jsonl":
        items = [json.loads(line) for line in decode(data, path).split("\n") if line.strip()]
        return _objects(items, "jsonl", _lines)
    return _delimited(decode(data, path), data, ending)


def _delimited(text: str, data: bytes, ending: str) -> Grid:
    first = next((line for line in text.split("\n") if line.strip()), "")
    if not first:
        raise Nothing("the table is empty")
    mark = "\t" if ending == ".tsv" else max(",;\t|", key=lambda d: (first.count(d), d == ","))
    end = "\r\n" if b"\r\n" in data else "\n"
    lines = [line for line in csv.reader(io.StringIO(text, newline=""), delimiter=mark) if any(line)]

    def render(grid: Grid) -> bytes:
        out = io.StringIO(newline="")
        writer = csv.writer(out, delimiter=mark, lineterminator=end)
        writer.writerows([grid.header, *grid.rows])
        return out.getvalue().encode()

    width = len(lines[0])
    return Grid(list(lines[0]), [(line + [""] * width)[: max(width, len(line))] for line in lines[1:]], "text", render)


def _workbook(state: State, path: str, sheet: str | None) -> Grid:
    from rover.harness.tools.workbooks import save

    book = workbook(state.at(path))
    target = book[sheet_title(book, sheet, path)]
    cells = [list(row) for row in target.iter_rows(values_only=True)]
    top = next((r for r, row in enumerate(cells) if any(not is_empty(v) for v in row)), None)
    if top is None:
        raise Nothing(f"sheet {target.title} is empty")
    left = next(c for c, v in enumerate(cells[top]) if not is_empty(v))
    width = max(c for c, v in enumerate(cells[top]) if not is_empty(v)) + 1 - left
    body = [row[left : left + width] for row in cells[top + 1 :]]
    while body and all(is_empty(v) for v in body[-1]):
        body.pop()
    height = len(body)

    def render(grid: Grid) -> bytes:
        for r in range(max(height, len(grid.rows)) + 1):
            line = grid.header if r == 0 else grid.rows[r - 1] if r <= len(grid.rows) else []
            for c in range(max(width, len(grid.header))):
                value = line[c] if c < len(line) else None
                cell = target.cell(row=top + 1 + r, column=left + 1 + c)
                if cell.value != value or type(cell.value) is not type(value):
                    cell.value = value
        return save(book)

    return Grid([str(v) for v in cells[top][left : left + width]], body, "cells", render)


def _json(state: State, path: str, field: str | None) -> Grid:
    value = json_value(state.at(path))
    if field is None:
        return _objects(value, "json", lambda grid: to_json(_items(grid)))
    if not isinstance(value, dict) or field not in value:
        raise Nothing(f"{path} has no field {field!r}")
    listed = value[field]
    if isinstance(listed, list) and not any(isinstance(v, dict | list) for v in listed):
        return Grid([field], [[v] for v in listed], "json", lambda g: to_json({**value, field: [r[0] for r in g.rows]}))
    return _objects(listed, "json", lambda grid: to_json({**value, field: _items(grid)}))


def _objects(items: Any, kind: str, render: Callable[[Grid], bytes]) -> Grid:
    if not isinstance(items, list) or not all(isinstance(i, dict) for i in items) or not items:
        raise Nothing("there is no list of objects")
    header = list(dict.fromkeys(k for item in items for k in item))
    return Grid(header, [[item.get(k) for k in header] for item in items], kind, render)


def _items(grid: Grid) -> list[dict[str, Any]]:
    return [dict(zip(grid.header, row, strict=True)) for row in grid.rows]


def _lines(grid: Grid) -> bytes:
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in _items(grid)).encode()


def to_json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
