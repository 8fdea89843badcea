"""The rules about tables, as the oracle reads them: format, rows, cells, order. Runs inside the sandbox."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rover.diagnose.oracle import files
from rover.diagnose.oracle.case import Case, Found, Json, say
from rover.diagnose.oracle.files import Grid, fold
from rover.diagnose.oracle.values import empty, equal, key_of, sort_key


def keys_of(case: Case, table: Json) -> tuple[list[str], list[int]]:
    """Names of the key columns in the deliverable, and their positions in the answer."""
    names = list(case.deliverable.get("key") or table["columns"])
    there = [fold(c) for c in table["columns"]]
    if all(fold(n) in there for n in names):
        return names, [there.index(fold(n)) for n in names]
    if len(names) > len(there):
        raise LookupError("the answer has fewer columns than the key")
    return names, list(range(len(names)))


def keyed(case: Case, grid: Grid, names: list[str]) -> list[tuple[Any, ...]]:
    specs = [case.column(n) for n in names]
    at = [grid.column(n) for n in names]
    return [tuple(key_of(row[i], s, case.same) for i, s in zip(at, specs, strict=True)) for row in grid.rows]


def answer_keys(case: Case, table: Json, names: list[str], at: list[int]) -> list[tuple[Any, ...]]:
    specs = [case.column(n) for n in names]
    return [tuple(key_of(row[i], s, case.same) for i, s in zip(at, specs, strict=True)) for row in table["rows"]]


def format_rule(case: Case) -> Found:
    spec = case.deliverable
    names = [c["name"] for c in spec.get("columns", ())]
    if spec["type"] in ("markdown", "text"):
        return (True, "") if files.words(case.path).strip() else (False, "is empty")
    if spec["type"] == "json":
        value = files.document(case.path)
        if isinstance(value, dict) and not _tabular(case):
            missing = [n for n in names + _fields(case) if n not in value]
            return (not missing, f"lacks {', '.join(missing)}" if missing else "")
    grid = case.grid()
    at = [grid.column(n) for n in names]
    if not case.same.get("extra_columns", True) and len(grid.header) > len(names):
        return False, "has columns that were not asked for"
    if case.same.get("column_order") and at != sorted(at):
        return False, "has its columns in another order"
    return True, ""


def rows_rule(case: Case) -> Found:
    table = case.answer()
    names, at = keys_of(case, table)
    want = answer_keys(case, table, names, at)
    got = keyed(case, case.grid(), names)
    missing, extra = Counter(want) - Counter(got), Counter(got) - Counter(want)
    if missing or extra:
        some = next(iter(missing or extra))
        return False, f"{missing.total()} rows missing, {extra.total()} too many ({say(some)})"
    if case.same.get("row_order") and got != want:
        return False, "has its rows in another order"
    return True, ""


def cells_rule(case: Case) -> Found:
    table = case.answer()
    name = case.rule["column"]
    names, at = keys_of(case, table)
    value_at = _value_column(table, name, at)
    grid, spec = case.grid(), case.column(name)
    column = grid.column(name)
    have: dict[Any, list[Any]] = {}
    for key, row in zip(keyed(case, grid, names), grid.rows, strict=True):
        have.setdefault(key, []).append(row[column])
    for key, row in zip(answer_keys(case, table, names, at), table["rows"], strict=True):
        cells = have.get(key)
        if not cells:
            return False, f"has no row {say(key)}"
        if not all(equal(cell, row[value_at], spec, case.same) for cell in cells):
            return False, f"{name} of {say(key)} is {cells[0]!r}"
    return True, ""


def order_rule(case: Case) -> Found:
    name = case.rule["column"]
    grid, spec = case.grid(), case.column(name)
    at = grid.column(name)
    if not grid.rows:
        return False, "has no rows"
    keys: list[Any] = [None if empty(row[at]) else sort_key(row[at], spec, case.same) for row in grid.rows]
    if None in keys:
        return False, f"{name} holds a value that is no {spec['type']}"
    ordered = sorted(keys, reverse=bool(case.rule.get("descending")))
    return (True, "") if keys == ordered else (False, f"is not sorted by {name}")


def _tabular(case: Case) -> bool:
    wanted = case.deliverable["id"]
    kinds = {r["rule"]["kind"] for r in case.contract["requirements"] if r.get("deliverable") == wanted}
    return bool(kinds & {"rows", "cells", "order"})


def _fields(case: Case) -> list[str]:
    """Fields that the rules of this deliverable name."""
    wanted = case.deliverable["id"]
    mine = [r["rule"] for r in case.contract["requirements"] if r.get("deliverable") == wanted]
    return [rule["field"] for rule in mine if "field" in rule]


def _value_column(table: Json, name: str, key_at: list[int]) -> int:
    there = [fold(c) for c in table["columns"]]
    if fold(name) in there:
        return there.index(fold(name))
    rest = [i for i in range(len(there)) if i not in key_at]
    if len(rest) != 1:
        raise LookupError(f"the answer has no column {name!r}")
    return rest[0]
