"""Tables in files, by the path's ending: csv, tsv, xlsx, json, jsonl. Runs inside the box."""

from __future__ import annotations

import json
from typing import Any

from rover.harness.tools import delimited, objects, paths
from rover.harness.tools.paths import ToolError
from rover.harness.tools.textfile import Text, decode
from rover.harness.tools.values import matches

READ_LIMIT = 200
_ENDINGS = {
    ".csv": "text", ".tsv": "text", ".tab": "text", ".txt": "text",
    ".xlsx": "book", ".xlsm": "book", ".json": "json", ".jsonl": "lines", ".ndjson": "lines",
}  # fmt: skip

text_of = decode


def read(path: str, arguments: dict[str, Any], limit: int) -> tuple[str, bool]:
    """Rows as JSON, as many as asked for and as fit in `limit` bytes; True where these are not all that match."""
    columns, rows = _rows(path, arguments.get("sheet"))
    where: dict[str, Any] = arguments.get("where") or {}
    wanted: list[str] = arguments.get("columns") or columns
    for name in (*where, *wanted):
        if name not in columns:
            raise ToolError(f"{path}: no column {name!r}; it has {', '.join(columns) or 'none'}")
    if where:
        tests = [(columns.index(name), value) for name, value in where.items()]
        rows = [row for row in rows if all(matches(row[at], value) for at, value in tests)]
    if wanted != columns:
        places = [columns.index(name) for name in wanted]
        rows = [[row[at] for at in places] for row in rows]
    offset, total = arguments.get("offset", 0), len(rows)
    head = json.dumps({"columns": wanted}, ensure_ascii=False)[:-1] + ', "rows": ['
    tail = f'], "total": {total}, "offset": {offset}}}'
    shown: list[str] = []
    size = len(head.encode("utf-8", "replace")) + len(tail)
    for row in rows[offset : offset + arguments.get("limit", READ_LIMIT)]:
        line = json.dumps(row, ensure_ascii=False)
        size += len(line.encode("utf-8", "replace")) + 2
        if size > limit:
            break
        shown.append(line)
    return head + ", ".join(shown) + tail, offset + len(shown) < total


def write(path: str, arguments: dict[str, Any]) -> None:
    """A whole table. ToolError where a row has another width than the header, or the ending is unknown."""
    columns: list[str] = arguments["columns"]
    rows: list[list[Any]] = arguments["rows"]
    for number, row in enumerate(rows):
        if len(row) != len(columns):
            raise ToolError(f"rows.{number}: {len(row)} values for {len(columns)} columns")
    kind = _kind(path)
    if kind == "book":
        from rover.harness.tools import workbooks

        paths.write_bytes(path, workbooks.write(path, _old(path), arguments.get("sheet"), columns, rows))
        return
    if kind == "text":
        text = delimited.render("\t" if path.lower().endswith((".tsv", ".tab")) else ",", columns, rows)
    else:
        text = objects.render(columns, rows, kind == "lines")
    paths.write_bytes(path, Text("", "utf-8").encode(path, text))


def append(path: str, arguments: dict[str, Any]) -> bool:
    """Rows at the end of a csv or tsv file, which is made where it is not there; True where it was."""
    columns: list[str] = arguments["columns"]
    rows: list[list[Any]] = arguments["rows"]
    if _kind(path) != "text":
        raise ToolError(f"{path}: rows are added to csv and tsv files only")
    for number, row in enumerate(rows):
        if len(row) != len(columns):
            raise ToolError(f"rows.{number}: {len(row)} values for {len(columns)} columns")
    data = _old(path)
    if not data:
        write(path, arguments)
        return data is not None
    old = decode(data)
    paths.write_bytes(path, old.encode(path, delimited.append(path, old.text, columns, rows)))
    return True


def edit(path: str, arguments: dict[str, Any]) -> int:
    """Change the matching rows in place; how many matched. Nothing is written where none did."""
    where, changes, kind = arguments["where"], arguments["set"], _kind(path)
    data = paths.read_bytes(path)
    if kind == "book":
        from rover.harness.tools import workbooks

        new, changed = workbooks.edit(path, data, arguments.get("sheet"), where, changes)
    else:
        old = decode(data)
        if kind == "text":
            text, changed = delimited.edit(path, old.text, where, changes)
        else:
            text, changed = objects.edit(path, old.text, kind == "lines", where, changes)
        new = old.encode(path, text)
    if changed:
        paths.write_bytes(path, new)
    return changed


def sheets(path: str) -> list[dict[str, Any]]:
    """What a workbook holds."""
    from rover.harness.tools import workbooks

    return workbooks.overview(path, paths.read_bytes(path))


def edit_cells(path: str, arguments: dict[str, Any]) -> int:
    """Set cells of a workbook by address."""
    from rover.harness.tools import workbooks

    data = paths.read_bytes(path)
    new, changed = workbooks.set_cells(path, data, arguments["sheet"], arguments["cells"])
    paths.write_bytes(path, new)
    return changed


def _rows(path: str, sheet: str | None) -> tuple[list[str], list[list[Any]]]:
    kind, data = _kind(path), paths.read_bytes(path)
    if kind == "book":
        from rover.harness.tools import workbooks

        return workbooks.table(path, data, sheet)
    text = decode(data).text
    if kind == "text":
        columns, rows = delimited.values(delimited.parse(text, delimited.delimiter(path, text)))
        return columns, [list(row) for row in rows]
    return objects.values(objects.parse(path, text, kind == "lines"))


def _kind(path: str) -> str:
    for ending, kind in _ENDINGS.items():
        if path.lower().endswith(ending):
            return kind
    raise ToolError(f"{path}: not a table that this tool knows (csv, tsv, xlsx, json, jsonl)")


def _old(path: str) -> bytes | None:
    import os

    return paths.read_bytes(path) if os.path.lexists(path) else None
