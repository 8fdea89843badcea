"""The tools of `chores` on tables in memory: what drills are played on, without a sandbox.

It answers what the harness answers to the same call (a test holds the two together), for read_table, append_rows and
edit_table on CSV files of plain fields. Packages never run here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rover.policy.protocol import Action, Plan, PolicyView
from rover_store.records import Call, ToolCall
from rover_train.world.workspaces import Table


class Desk:
    """Tables by path, header first."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self.tables = {path: [list(row) for row in table] for path, table in tables.items()}

    def use(self, call: ToolCall) -> Call:
        """One call and its answer."""
        try:
            output, truncated = getattr(self, f"_{call.tool}")(**call.arguments)
            status = "ok"
        except (KeyError, ValueError) as error:
            output, truncated, status = str(error), False, "error"
        return Call(
            id=call.id, tool=call.tool, arguments=call.arguments, status=status, output=output, truncated=truncated
        )

    def _read_table(
        self, path: str, columns: list[str] | None = None, where: Mapping[str, Any] | None = None,
        offset: int = 0, limit: int = 200,
    ) -> tuple[str, bool]:  # fmt: skip
        header, *rows = self.tables[path]
        kept = [row for row in rows if _meets(header, row, where or {})]
        wanted = columns or header
        places = [header.index(name) for name in wanted]
        shown = [[row[at] for at in places] for row in kept[offset : offset + limit]]
        answer = {"columns": wanted, "rows": shown, "total": len(kept), "offset": offset}
        return json.dumps(answer, ensure_ascii=False), offset + len(shown) < len(kept)

    def _append_rows(self, path: str, columns: list[str], rows: list[list[Any]]) -> tuple[str, bool]:
        table = self.tables.setdefault(path, [list(columns)])
        places = [columns.index(name) for name in table[0]]
        table += [[str(row[at]) for at in places] for row in rows]
        return json.dumps({"appended": len(rows)}), False

    def _edit_table(self, path: str, where: Mapping[str, Any], set: Mapping[str, Any]) -> tuple[str, bool]:
        header, *rows = self.tables[path]
        hits = [row for row in rows if _meets(header, row, where)]
        for row in hits:
            for name, value in set.items():
                row[header.index(name)] = str(value)
        return json.dumps({"changed": len(hits)}), False


def _meets(header: list[str], row: list[str], where: Mapping[str, Any]) -> bool:
    return all(row[header.index(name)] == str(value) for name, value in where.items())


def play(plan: Plan, view: PolicyView, desk: Desk, seed: int = 0) -> list[tuple[Action, tuple[Call, ...]]]:
    """A plan played to its end: each turn and its results, the last one without calls."""
    steps = plan(view, seed)
    turns: list[tuple[Action, tuple[Call, ...]]] = []
    try:
        call = next(steps)
        while True:
            answer = desk.use(call)
            turns.append((Action(calls=(call,)), (answer,)))
            call = steps.send(answer)
    except StopIteration as end:
        turns.append((Action(message=str(end.value or "")), ()))
    return turns
