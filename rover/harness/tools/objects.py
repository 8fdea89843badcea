"""json (a list of objects) and jsonl as tables, with the place of every value, so that an edit touches no other."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from rover.harness.tools.paths import ToolError
from rover.harness.tools.values import matches

_SPACE = re.compile(r"[ \t\r\n]*")


class Value(NamedTuple):
    """A value and where its text lies."""

    value: Any
    start: int
    end: int


class Object(NamedTuple):
    """An object of the list: its fields, and where its closing brace is."""

    fields: dict[str, Value]
    close: int


class _Reader:
    """A walk over JSON text that notes places. ValueError where the text is not JSON."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.decoder = json.JSONDecoder()

    def peek(self) -> str:
        match = _SPACE.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        return self.text[self.at : self.at + 1]

    def take(self, mark: str) -> None:
        if self.peek() != mark:
            raise ValueError(f"expected {mark!r} at character {self.at}")
        self.at += 1

    def object(self) -> Object:
        self.take("{")
        fields: dict[str, Value] = {}
        while self.peek() != "}":
            if fields:
                self.take(",")
            if self.peek() != '"':
                raise ValueError(f"expected a name at character {self.at}")
            name, self.at = self.decoder.raw_decode(self.text, self.at)
            self.take(":")
            self.peek()
            start = self.at
            value, self.at = self.decoder.raw_decode(self.text, start)
            fields[name] = Value(value, start, self.at)
        self.at += 1
        return Object(fields, self.at - 1)


def parse(path: str, text: str, lines: bool) -> list[Object]:
    """The objects of a list (json) or of a file with one a line (jsonl)."""
    reader = _Reader(text)
    found: list[Object] = []
    try:
        if lines:
            while reader.peek():
                found.append(reader.object())
            return found
        if reader.peek() != "[":
            raise ToolError(f"{path}: not a table: the JSON is not a list of objects")
        reader.take("[")
        while reader.peek() != "]":
            if found:
                reader.take(",")
            if reader.peek() != "{":
                raise ToolError(f"{path}: not a table: the JSON is not a list of objects")
            found.append(reader.object())
        reader.take("]")
        if reader.peek():
            raise ValueError(f"text after the list at character {reader.at}")
    except (ValueError, RecursionError) as error:
        raise ToolError(f"{path}: not valid JSON: {error}") from None
    return found


def values(objects: list[Object]) -> tuple[list[str], list[list[Any]]]:
    """Columns in order of first appearance, and rows; a value that is absent is null."""
    columns = list(dict.fromkeys(name for item in objects for name in item.fields))
    return columns, [[_plain(item.fields.get(name)) for name in columns] for item in objects]


def edit(path: str, text: str, lines: bool, where: dict[str, Any], changes: dict[str, Any]) -> tuple[str, int]:
    """The text with the matching objects changed, and how many matched."""
    objects = parse(path, text, lines)
    known = {name for item in objects for name in item.fields}
    for name in (*where, *changes):
        if name not in known:
            raise ToolError(f"{path}: no field {name!r}; it has {', '.join(sorted(known)) or 'none'}")
    spans: list[tuple[int, int, str]] = []
    changed = 0
    escaped = text.isascii() and "\\u" in text  # the file's own habit is kept
    for item in objects:
        if not all(matches(_plain(item.fields.get(name)), value) for name, value in where.items()):
            continue
        changed += 1
        for name, value in changes.items():
            new = json.dumps(value, ensure_ascii=escaped)
            if name in item.fields:
                spans.append((item.fields[name].start, item.fields[name].end, new))
            else:
                comma = ", " if item.fields else ""
                spans.append((item.close, item.close, f"{comma}{json.dumps(name, ensure_ascii=False)}: {new}"))
    out: list[str] = []
    done = 0
    for start, end, new in sorted(spans):
        out += [text[done:start], new]
        done = end
    return "".join(out) + text[done:], changed


def render(columns: list[str], rows: list[list[Any]], lines: bool) -> str:
    """A table as a list of objects, or one object a line."""
    objects = [dict(zip(columns, row, strict=True)) for row in rows]
    if lines:
        return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in objects)
    return json.dumps(objects, ensure_ascii=False, indent=2) + "\n"


def _plain(value: Value | None) -> Any:
    """A value as a cell: a nested one as its JSON text."""
    if value is None:
        return None
    return json.dumps(value.value, ensure_ascii=False) if isinstance(value.value, dict | list) else value.value
