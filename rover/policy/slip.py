"""Seeded slips: what goes wrong in the hands of a worker who understood the task but was careless once.

A slip changes the calls that a plan yields, whatever the plan is; it knows the tools' arguments, not the task.
Which row, column or number is hit comes from the seed alone.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from rover_store.records import Call, ToolCall

SlipKind = Literal["skip_write", "wrong_column", "stop_early", "perturb_number", "drop_row"]
SLIPS: tuple[SlipKind, ...] = get_args(SlipKind)

_NUMBER = re.compile(r"(?<![\w.-])\d+(?:\.\d+)?(?![\w-]|\.\w)")
_WRITES = ("write_table", "append_rows", "write_file", "edit_table", "edit_workbook", "delete_file")
#: what a plan reads in the output of a write that was skipped
_PRETENDED = {
    "write_table": "written", "append_rows": "appended", "write_file": "written", "edit_table": "changed",
    "edit_workbook": "changed",
}  # fmt: skip


@dataclass(slots=True)
class Slip:
    """One slip, made once: at the first call that it can spoil."""

    kind: SlipKind
    made: bool = False

    def fresh(self) -> Slip:
        """The same slip, not made yet."""
        return Slip(self.kind)

    def apply(self, call: ToolCall, rng: random.Random) -> ToolCall | None:
        """The call as it is really made; None where it is left out (`stop_early`: with all that follow)."""
        if self.made or not _writes(call):
            return call
        if self.kind in ("skip_write", "stop_early"):
            self.made = True
            return None
        changed = _spoil(self.kind, call.tool, dict(call.arguments), rng)
        if changed is None or changed == call.arguments:
            return call
        self.made = True
        return call.model_copy(update={"arguments": changed})


def pretended(call: ToolCall) -> Call:
    """The result that a plan is shown for a call that was left out."""
    count = len(call.arguments.get("rows", call.arguments.get("cells", "1")))
    output = json.dumps({_PRETENDED.get(call.tool, "done"): count})
    if call.tool == "shell":
        output = json.dumps({"exit_code": 0, "stdout": "", "stderr": ""})
    return Call(id=call.id, tool=call.tool, arguments=call.arguments, output=output)


def _writes(call: ToolCall) -> bool:
    return call.tool in _WRITES or (call.tool == "shell" and ">" in str(call.arguments.get("command", "")))


def _spoil(kind: SlipKind, tool: str, arguments: dict[str, Any], rng: random.Random) -> dict[str, Any] | None:
    if tool in ("write_table", "append_rows"):
        return _spoil_table(kind, arguments, rng)
    if tool == "write_file":
        content = _spoil_text(kind, arguments["content"], rng)
        return None if content is None else {**arguments, "content": content}
    if tool == "edit_table":
        return _spoil_edit(kind, arguments, rng)
    if tool == "edit_workbook":
        return _spoil_cells(kind, arguments, rng)
    return None


def _spoil_table(kind: SlipKind, arguments: dict[str, Any], rng: random.Random) -> dict[str, Any] | None:
    rows = [list(row) for row in arguments["rows"]]
    if not rows:
        return None
    if kind == "drop_row":
        del rows[rng.randrange(len(rows))]
    elif kind == "perturb_number":
        cells = [(r, c) for r, row in enumerate(rows) for c, value in enumerate(row) if _is_number(value)]
        if not cells:
            return None
        row, column = rng.choice(cells)
        rows[row][column] = _perturbed(rows[row][column], rng)
    else:
        width = len(arguments["columns"])
        pairs = [(a, b) for a in range(width) for b in range(a) if any(r[a] != r[b] for r in rows)]
        if not pairs:
            return None
        a, b = rng.choice(pairs)
        for row_ in rows:
            row_[a], row_[b] = row_[b], row_[a]
    return {**arguments, "rows": rows}


def _spoil_edit(kind: SlipKind, arguments: dict[str, Any], rng: random.Random) -> dict[str, Any] | None:
    changes: dict[str, Any] = dict(arguments["set"])
    if kind == "drop_row":
        # the row that the edit meant is missed: no row has this value
        name = sorted(arguments["where"])[0]
        return {**arguments, "where": {**arguments["where"], name: f"{arguments['where'][name]} (not there)"}}
    if kind == "perturb_number":
        name = sorted(changes)[rng.randrange(len(changes))]
        value = changes[name]
        changes[name] = _perturbed(value, rng) if _is_number(value) else f"{value}?"
        return {**arguments, "set": changes}
    others = sorted(set(arguments["where"]) - set(changes))
    if not others:
        return None
    name = sorted(changes)[0]
    changes[rng.choice(others)] = changes.pop(name)
    return {**arguments, "set": changes}


def _spoil_cells(kind: SlipKind, arguments: dict[str, Any], rng: random.Random) -> dict[str, Any] | None:
    cells = dict(arguments["cells"])
    address = sorted(cells)[rng.randrange(len(cells))]
    if kind == "drop_row":
        if len(cells) == 1:
            return None
        del cells[address]
    elif kind == "perturb_number":
        cells[address] = _perturbed(cells[address], rng) if _is_number(cells[address]) else f"{cells[address]}?"
    else:
        column, row = re.sub(r"\d", "", address), re.sub(r"\D", "", address)
        cells[f"{chr(ord(column[-1]) + 1) if column[-1] not in 'zZ' else 'A'}{row}"] = cells.pop(address)
    return {**arguments, "cells": cells}


def _spoil_text(kind: SlipKind, text: str, rng: random.Random) -> str | None:
    """Spoil a memo, or a findings file in JSON."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, dict | list) and value:
        spoilt = _spoil_json(kind, value, rng)
        return None if spoilt is None else json.dumps(spoilt, indent=2, ensure_ascii=False) + "\n"
    numbers = list(_NUMBER.finditer(text))
    if kind == "drop_row":
        lines = text.splitlines(keepends=True)
        with_numbers = [n for n, line in enumerate(lines) if _NUMBER.search(line)]
        if not with_numbers:
            return None
        del lines[rng.choice(with_numbers)]
        return "".join(lines)
    if not numbers:
        return None
    if kind == "perturb_number":
        found = rng.choice(numbers)
        return f"{text[: found.start()]}{_perturbed(found.group(), rng)}{text[found.end() :]}"
    pairs = [(a, b) for n, a in enumerate(numbers) for b in numbers[n + 1 :] if a.group() != b.group()]
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    return text[: a.start()] + b.group() + text[a.end() : b.start()] + a.group() + text[b.end() :]


def _spoil_json(kind: SlipKind, value: Any, rng: random.Random) -> Any:
    """Spoil one place of a JSON value: a list's member, a number, or two fields that change places."""
    value = json.loads(json.dumps(value))
    lists, numbers, objects = _places(value)
    if kind == "drop_row":
        if not lists:
            return None
        chosen = rng.choice(lists)
        del chosen[rng.randrange(len(chosen))]
        return value
    if kind == "perturb_number":
        if not numbers:
            return None
        holder, key = rng.choice(numbers)
        holder[key] = _perturbed(holder[key], rng)
        return value
    for item in objects:
        pairs = [(a, b) for a in item for b in item if a < b and item[a] != item[b]]
        if pairs:
            a, b = rng.choice(pairs)
            item[a], item[b] = item[b], item[a]
            return value
    return None


def _places(value: Any) -> tuple[list[list[Any]], list[tuple[Any, Any]], list[dict[str, Any]]]:
    lists: list[list[Any]] = []
    numbers: list[tuple[Any, Any]] = []
    objects: list[dict[str, Any]] = []
    stack = [value]
    while stack:
        here = stack.pop()
        items = here.items() if isinstance(here, dict) else enumerate(here)
        if isinstance(here, dict):
            objects.append(here)
        elif here:
            lists.append(here)
        for key, inner in items:
            if isinstance(inner, dict | list):
                stack.append(inner)
            elif _is_number(inner):
                numbers.append((here, key))
    return lists, numbers, objects


def _is_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int | float) or (isinstance(value, str) and bool(_NUMBER.fullmatch(value)))


def _perturbed(value: Any, rng: random.Random) -> Any:
    """Another number in the same written form: off by a tenth, and by one at the least."""
    number = float(value)
    off = max(1.0, abs(number) * 0.1) * rng.choice((1, -1) if number >= 1 else (1,))
    if isinstance(value, int):
        return round(number + off)
    if isinstance(value, float):
        return round(number + off, 6)
    places = len(value.partition(".")[2])
    return f"{number + off:.{places}f}"
