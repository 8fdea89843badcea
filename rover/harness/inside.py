"""What runs in the box for a tool call: `rover.harness.inside:tool`. The working directory is the workspace.

Takes {"tool", "arguments", "output_bytes"}, gives {"status", "output", "truncated", "reads", "writes"}; what
goes wrong for the policy's reasons (no such file, a path outside, a damaged workbook) is the output of a
failed call, never an exception.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rover.harness.tools import paths, tables
from rover.harness.tools.paths import ToolError


@dataclass(slots=True)
class Done:
    """What a tool did."""

    output: str
    truncated: bool = False
    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)


Arguments = dict[str, Any]


def tool(payload: dict[str, Any]) -> dict[str, Any]:
    """Run one tool."""
    arguments: Arguments = payload["arguments"]
    limit: int = payload.get("output_bytes", 1 << 20)
    try:
        done = _TOOLS[payload["tool"]](arguments, limit)
    except ToolError as error:
        done = Done(str(error))
        return _answer(done, "error", limit)
    except (MemoryError, RecursionError) as error:
        return _answer(Done(f"the tool gave up: {type(error).__name__}"), "error", limit)
    return _answer(done, "ok", limit)


def _answer(done: Done, status: str, limit: int) -> dict[str, Any]:
    output = done.output.encode("utf-8", "replace")
    cut = len(output) > limit
    return {
        "status": status,
        "output": output[:limit].decode("utf-8", "ignore"),
        "truncated": done.truncated or cut,
        "reads": done.reads,
        "writes": done.writes,
    }


def _list_files(arguments: Arguments, limit: int) -> Done:
    found = paths.walk(paths.resolve(arguments.get("path") or "."))
    shown: list[str] = []
    size = 14
    for path, length in found:
        line = json.dumps({"path": _shown(path), "size": length}, ensure_ascii=False)
        size += len(line.encode("utf-8", "replace")) + 2
        if size > limit:
            break
        shown.append(line)
    return Done('{"files": [' + ", ".join(shown) + "]}", truncated=len(shown) < len(found))


def _read_file(arguments: Arguments, limit: int) -> Done:
    path = paths.resolve(arguments["path"])
    text = tables.text_of(paths.read_bytes(path)).text
    offset, count = arguments.get("offset", 0), arguments.get("limit")
    if offset == 0 and count is None:
        return Done(text, reads=[path])
    lines = text.splitlines(keepends=True)
    last = len(lines) if count is None else offset + count
    return Done("".join(lines[offset:last]), truncated=last < len(lines), reads=[path])


def _write_file(arguments: Arguments, limit: int) -> Done:
    path = paths.resolve(arguments["path"])
    try:
        data = arguments["content"].encode("utf-8")
    except UnicodeEncodeError:
        raise ToolError(f"{path}: the content holds a character that UTF-8 cannot write") from None
    paths.write_bytes(path, data)
    return Done(json.dumps({"written": len(data)}), writes=[path])


def _delete_file(arguments: Arguments, limit: int) -> Done:
    path = paths.resolve(arguments["path"], follow=False)
    paths.remove(path)
    return Done(json.dumps({"deleted": _shown(path)}, ensure_ascii=False), writes=[path])


def _read_table(arguments: Arguments, limit: int) -> Done:
    path = paths.resolve(arguments["path"])
    output, truncated = tables.read(path, arguments, limit)
    return Done(output, truncated, reads=[path])


def _write_table(arguments: Arguments, limit: int) -> Done:
    path = paths.resolve(arguments["path"])
    tables.write(path, arguments)
    return Done(json.dumps({"written": len(arguments["rows"])}), writes=[path])


def _append_rows(arguments: Arguments, limit: int) -> Done:
    path = paths.resolve(arguments["path"])
    there = tables.append(path, arguments)
    return Done(json.dumps({"appended": len(arguments["rows"])}), reads=[path] if there else [], writes=[path])


def _edit_table(arguments: Arguments, limit: int) -> Done:
    path = paths.resolve(arguments["path"])
    changed = tables.edit(path, arguments)
    return Done(json.dumps({"changed": changed}), reads=[path], writes=[path] if changed else [])


def _read_workbook(arguments: Arguments, limit: int) -> Done:
    path = paths.resolve(arguments["path"])
    sheets = tables.sheets(path)
    return Done(json.dumps({"sheets": sheets}, ensure_ascii=False), reads=[path])


def _edit_workbook(arguments: Arguments, limit: int) -> Done:
    path = paths.resolve(arguments["path"])
    changed = tables.edit_cells(path, arguments)
    return Done(json.dumps({"changed": changed}), reads=[path], writes=[path])


def _shown(path: str) -> str:
    """A path as text, also where its bytes are not UTF-8."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


_TOOLS: dict[str, Callable[[Arguments, int], Done]] = {
    "list_files": _list_files,
    "read_file": _read_file,
    "write_file": _write_file,
    "delete_file": _delete_file,
    "read_table": _read_table,
    "write_table": _write_table,
    "append_rows": _append_rows,
    "edit_table": _edit_table,
    "read_workbook": _read_workbook,
    "edit_workbook": _edit_workbook,
}
