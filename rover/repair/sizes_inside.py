"""How much a file holds, so that an input that shrank is seen whatever its format. Runs inside the sandbox."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from rover.diagnose.oracle import files
from rover.diagnose.oracle.files import Unreadable

WARM_FOR = {".xlsx": "openpyxl", ".xlsm": "openpyxl"}


def sizes(job: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Entry point. Path -> unit -> count; files that cannot be read in their format are measured in bytes."""
    out = {}
    for name in job["files"]:
        path = Path(name)
        try:
            out[name] = _size(path)
        except (Unreadable, csv.Error):
            out[name] = {"bytes": path.stat().st_size}
    return out


def _size(path: Path) -> dict[str, int]:
    ending = path.suffix.lower()
    if ending in (".xlsx", ".xlsm"):
        sheets = files.workbook(path, formulas=True)
        rows = [[cell for cell in row if cell not in (None, "")] for sheet in sheets.values() for row in sheet]
        held = [row for row in rows if row]
        return {"sheets": len(sheets), "rows": len(held), "columns": max(map(len, held), default=0)}
    if ending == ".json":
        return {"values": _values(files.document(path))}
    lines = [line for line in files.words(path).splitlines() if line.strip()]
    if ending not in (".csv", ".tsv"):
        return {"lines": len(lines)}
    mark = "\t" if ending == ".tsv" else max(",;\t", key=lines[0].count) if lines else ","
    header = next(csv.reader(lines[:1], delimiter=mark), [])
    return {"lines": len(lines), "columns": len(header)}


def _values(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_values, value.values()))
    return sum(map(_values, value)) if isinstance(value, list) else 1
