"""What tools answer, in the plain dialect: tables as lines of fields, counts as two words, files as they stand.

The form tells the kinds apart: a table's lines begin with a space, a file's text with a line break, an error with
` error:`. Where rows were left out, a last line says `of TOTAL from OFFSET`. Columns that the call names are not
repeated as a header.
"""

from __future__ import annotations

import json
from typing import Any

from rover_store.records import Call
from rover_train.render.fields import line


def shown(result: Call, cut: str) -> str:
    """The text of one observation."""
    if result.status == "error":
        return f" error: {result.output}"
    if result.tool == "read_file":
        return "\n" + result.output + (cut if result.truncated else "")
    try:
        answer = json.loads(result.output)
    except (ValueError, RecursionError):
        answer = None
    text = _answer(result, answer) if isinstance(answer, dict) else None
    if text is None:
        return "\n" + result.output + (cut if result.truncated else "")
    return text + (cut if result.truncated and result.tool != "read_table" else "")


def _answer(result: Call, answer: dict[str, Any]) -> str | None:
    """The short form of an answer; None where it has none."""
    names = set(answer)
    if names in ({"changed"}, {"written"}, {"appended"}, {"deleted"}):
        word, count = next(iter(answer.items()))
        return f" {word} {count}" if isinstance(count, int) else f" {word}"
    if names == {"columns", "rows", "total", "offset"}:
        return _table(answer, header=result.arguments.get("columns") != answer["columns"])
    if names == {"files"}:
        return "\n".join(line([f["path"], str(f["size"])]) for f in answer["files"]) or " none"
    return None


def _table(answer: dict[str, Any], *, header: bool) -> str:
    rows = answer["rows"]
    lines = [line(answer["columns"])] if header else []
    lines += [line(row) for row in rows]
    if answer["offset"] or answer["offset"] + len(rows) < answer["total"]:
        lines.append(f"of {answer['total']} from {answer['offset']}")
    return "\n".join(lines) or " none"
