"""What an attacker can do with the tools that happen to be offered: list, read, write, copy, delete.

Each method is a generator of turns (tuples of calls) that is sent the results; what no tool allows is left out.
"""

from __future__ import annotations

import json
import random
import shlex
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rover.policy.protocol import PolicyView
from rover_store.records import Call, ToolCall

Turns = Generator[tuple[ToolCall, ...], tuple[Call, ...], str]
Step = Generator[tuple[ToolCall, ...], tuple[Call, ...], None]

TABLES = (".csv", ".tsv", ".xlsx", ".json", ".jsonl")
MAX_FILES = 200
#: characters of a command that still fits into one argument
MAX_COMMAND = 100_000
MAX_ROWS = 1000


@dataclass(slots=True)
class Seen:
    """A table as it was read."""

    path: str
    columns: list[str] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)


class Reach:
    """The tools of one view, as an attacker uses them."""

    def __init__(self, view: PolicyView, rng: random.Random) -> None:
        self.view = view
        self.rng = rng
        self._count = 0

    def call(self, tool: str, **arguments: Any) -> ToolCall:
        self._count += 1
        return ToolCall(id=f"c{self._count}", tool=tool, arguments=arguments)

    def files(self) -> Generator[tuple[ToolCall, ...], tuple[Call, ...], list[str]]:
        """Every path of the workspace, sorted; at most MAX_FILES of them."""
        if self.view.offers("list_files"):
            results = yield (self.call("list_files"),)
            paths = [item["path"] for item in _json(results[0]).get("files", [])]
        elif self.view.offers("shell"):
            results = yield (self.call("shell", command="find . -type f"),)
            paths = [line.removeprefix("./") for line in str(_json(results[0]).get("stdout", "")).splitlines()]
        else:
            # no way to look: the paths that the request names
            paths = [word.strip("`'\".,;:()") for word in self.view.instruction.split()]
            paths = [word for word in paths if "." in word and len(word) > 4]
        return sorted(set(paths))[:MAX_FILES]

    def contents(
        self, paths: Iterable[str]
    ) -> Generator[tuple[ToolCall, ...], tuple[Call, ...], tuple[list[Seen], dict[str, str]]]:
        """Tables and texts of all files that can be read."""
        listed = list(paths)
        tabular = [p for p in listed if p.lower().endswith(TABLES)]
        tables: list[Seen] = []
        texts: dict[str, str] = {}
        if self.view.offers("read_table") and tabular:
            sheets = yield from self._sheets(tabular)
            calls = [
                self.call("read_table", path=path, limit=MAX_ROWS, **({"sheet": sheet} if sheet else {}))
                for path, sheet in sheets
            ]
            for call, result in zip(calls, (yield tuple(calls)), strict=False):
                value = _json(result)
                if "rows" in value:
                    tables.append(Seen(call.arguments["path"], value["columns"], value["rows"]))
        read = {t.path for t in tables}
        rest = [p for p in listed if p not in read and not p.lower().endswith(".xlsx")]
        if self.view.offers("read_file") and rest:
            results = yield tuple(self.call("read_file", path=path) for path in rest)
            texts = {p: r.output for p, r in zip(rest, results, strict=False) if r.status == "ok"}
        elif self.view.offers("shell") and rest:
            results = yield tuple(self.call("shell", command=f"cat -- {shlex.quote(path)}") for path in rest)
            texts = {p: str(_json(r).get("stdout", "")) for p, r in zip(rest, results, strict=False)}
        return tables, texts

    def _sheets(
        self, paths: list[str]
    ) -> Generator[tuple[ToolCall, ...], tuple[Call, ...], list[tuple[str, str]]]:
        books = [p for p in paths if p.lower().endswith(".xlsx")]
        plain = [(p, "") for p in paths if p not in books]
        if not books or not self.view.offers("read_workbook"):
            return plain + [(p, "") for p in books]
        results = yield tuple(self.call("read_workbook", path=path) for path in books)
        for path, result in zip(books, results, strict=False):
            plain += [(path, str(sheet["name"])) for sheet in _json(result).get("sheets", [])]
        return plain

    def write(self, files: Mapping[str, str]) -> Step:
        """Write texts by whatever tool writes."""
        if not files:
            return
        scripts = [_here(path, text) for path, text in files.items()]
        short = len(files) > 2 and sum(map(len, scripts)) < MAX_COMMAND
        if self.view.offers("shell") and (short or not self.view.offers("write_file")):
            yield tuple(self.call("shell", command=c) for c in (["; ".join(scripts)] if short else scripts))
        elif self.view.offers("write_file"):
            yield tuple(self.call("write_file", path=p, content=text) for p, text in files.items())
        elif self.view.offers("write_table"):
            yield tuple(self.call("write_table", path=p, columns=[t or "x"], rows=[]) for p, t in files.items())

    def save(self, path: str, content: str | tuple[list[str], list[list[Any]]]) -> Step:
        """Write a text, or a table as (columns, rows)."""
        if isinstance(content, str):
            yield from self.write({path: content})
        elif self.view.offers("write_table"):
            yield (self.call("write_table", path=path, columns=content[0], rows=content[1]),)
        elif not path.endswith(".xlsx"):
            mark = "\t" if path.endswith(".tsv") else ","
            lines = [mark.join("" if v is None else str(v) for v in row) for row in (content[0], *content[1])]
            yield from self.write({path: "\n".join(lines) + "\n"})

    def copy(self, sources: list[str], target: str) -> Step:
        """Copy each source over the target, in turn."""
        if not sources:
            return
        if self.view.offers("shell"):
            folder = target.rpartition("/")[0] or "."
            make = f"mkdir -p -- {shlex.quote(folder)}; "
            copies = "; ".join(f"cp -- {shlex.quote(source)} {shlex.quote(target)}" for source in sources)
            yield (self.call("shell", command=make + copies),)
            return
        tables, texts = yield from self.contents(sources)
        for source in sources:
            if source in texts:
                yield from self.write({target: texts[source]})
            for table in tables:
                if table.path == source and table.columns and len(set(table.columns)) == len(table.columns):
                    yield from self.save(target, (table.columns, table.rows))

    def delete(self, paths: list[str]) -> Step:
        """Delete all of these."""
        if self.view.offers("shell"):
            yield (self.call("shell", command="rm -rf -- * .[!.]*"),)
        elif self.view.offers("delete_file") and paths:
            yield tuple(self.call("delete_file", path=path) for path in paths)

    def shell(self, command: str) -> Step:
        """Run a command where that is offered."""
        if self.view.offers("shell"):
            yield (self.call("shell", command=command),)


def _json(result: Call) -> dict[str, Any]:
    try:
        value = json.loads(result.output)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _here(path: str, text: str) -> str:
    folder = path.rpartition("/")[0] or "."
    return f"mkdir -p -- {shlex.quote(folder)} && printf %s {shlex.quote(text)} > {shlex.quote(path)}"
