"""The values of anchors are tables: they are compared by cell, as a file would be, and not as nested lists."""

from __future__ import annotations

import json
from typing import Any

from rover_store.diffs.bounds import CELLS
from rover_store.diffs.content import TableChange
from rover_store.diffs.tables import Grid, compare_tables


def anchor_tables(old: Any, new: Any) -> tuple[tuple[TableChange, ...], tuple[Any, Any]]:
    """Tables that differ, called `anchor ID`, and both values without them."""
    sides = [_tables(value) for value in (old, new)]
    tables = []
    for name, (before, _) in sides[0].items():
        after = sides[1].get(name, (None, None))[0]
        if after is not None and before != after:
            table = compare_tables(f"anchor {name}", before, after)
            if table.differs:
                tables.append(table)
    told = {t.name.removeprefix("anchor ") for t in tables}
    return tuple(tables), (_without(old, told), _without(new, told))


def _tables(value: Any) -> dict[str, tuple[Grid, Any]]:
    """The tables of a record of anchors by id; those alone that have the shape of one."""
    out: dict[str, tuple[Grid, Any]] = {}
    anchors = value.get("anchors") if isinstance(value, dict) else None
    left = CELLS
    for anchor in anchors if isinstance(anchors, list) else ():
        name = anchor.get("id") if isinstance(anchor, dict) else None
        table = anchor.get("value") if isinstance(anchor, dict) else None
        if not isinstance(name, str) or name in out:
            continue
        if not isinstance(table, dict) or table.keys() != {"columns", "rows"}:
            continue
        rows = [table["columns"], *table["rows"]] if isinstance(table["rows"], list) else []
        left -= sum(len(row) for row in rows if isinstance(row, list))
        if left > 0 and rows and all(isinstance(row, list) and row for row in rows):
            out[name] = (Grid([tuple(map(_cell, row)) for row in rows]), anchor)
    return out


def _cell(value: Any) -> str:
    """A cell as text: text as it is, unless it would read as another value."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except (ValueError, RecursionError):
            return value
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else json.dumps(value)


def _without(value: Any, names: set[str]) -> Any:
    if not names:
        return value
    kept = [
        {k: v for k, v in a.items() if k != "value"} if isinstance(a, dict) and a.get("id") in names else a
        for a in value["anchors"]
    ]
    return {**value, "anchors": kept}
