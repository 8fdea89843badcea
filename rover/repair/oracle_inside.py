"""The contract's own interpreter: evaluates every requirement of a contract on an end state, inside the sandbox.

Code apart from rover.verify, so that the two can disagree. The contract comes as plain JSON, the answers as
tables derived by the second engine; the box holds `start/...` and `end/...` below its root.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rover.repair import oracle_edits, oracle_files, oracle_text
from rover.repair.oracle_files import Grid, Unreadable, fold
from rover.repair.oracle_values import empty, equal, key_of, kind_of, sort_key

Json = Mapping[str, Any]
Found = tuple[bool, str]


class Case:
    """One requirement on one end state."""

    def __init__(self, job: Json, requirement: Json) -> None:
        self._job = job
        self.contract: Json = job["contract"]
        self.answers: Json = job["answers"]
        self.message: str = job.get("message", "")
        self.links: list[str] = job.get("links", [])
        self.requirement = requirement
        self.rule: Json = requirement["rule"]
        self.same: Json = self.contract.get("same", {})
        self.start = Path("start")
        self.end = Path("end") / str(job["at"]) if "at" in job else Path("end")

    def other(self, requirement: Json) -> Case:
        """Another requirement on the same end state."""
        return Case(self._job, requirement)

    @property
    def deliverable(self) -> Json:
        wanted = self.requirement.get("deliverable")
        for one in self.contract["deliverables"]:
            if one["id"] == wanted or (wanted is None and len(self.contract["deliverables"]) == 1):
                return dict(one)
        raise LookupError(f"requirement {self.requirement['id']} names no deliverable")

    @property
    def path(self) -> Path:
        return self.end / str(self.deliverable["path"])

    def grid(self) -> Grid:
        return oracle_files.grid(self.path, self.deliverable)

    def column(self, name: str) -> Json:
        """The spec of a column; text where the contract has none of that name."""
        found = (c for c in self.deliverable.get("columns", ()) if fold(c["name"]) == fold(name))
        return dict(next(found, {"name": name, "type": "text"}))

    def answer(self, slot: str = "value") -> Json:
        """The derived table of an answer; LookupError where it could not be derived."""
        table = self.answers.get(f"{self.requirement['id']}:{slot}")
        if table is None or "error" in table:
            why = (table or {}).get("error", "it is missing")
            raise LookupError(f"the answer of {self.requirement['id']} cannot be derived: {why}")
        return dict(table)

    def value(self, slot: str = "value") -> Any:
        """A scalar: a given by name, or the only cell of an answer."""
        stated = self.rule[slot]
        if "given" in stated:
            for one in self.contract["givens"]:
                if one["name"] == stated["given"]:
                    return one["value"]
            raise LookupError(f"no given is called {stated['given']}")
        rows = self.answer(slot)["rows"]
        if len(rows) != 1 or len(rows[0]) != 1:
            raise LookupError(f"the answer of {self.requirement['id']} is no single value")
        return rows[0][0]


# --- tables ----------------------------------------------------------------------------------------------
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
        return (True, "") if oracle_files.words(case.path).strip() else (False, "is empty")
    if spec["type"] == "json":
        value = oracle_files.document(case.path)
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
        return False, f"{missing.total()} rows missing, {extra.total()} too many ({_say(some)})"
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
            return False, f"has no row {_say(key)}"
        if not all(equal(cell, row[value_at], spec, case.same) for cell in cells):
            return False, f"{name} of {_say(key)} is {cells[0]!r}"
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


# --- JSON objects ----------------------------------------------------------------------------------------
def field_of(case: Case) -> Any:
    value = oracle_files.document(case.path)
    name = case.rule["field"]
    if not isinstance(value, dict):
        raise Unreadable("is no JSON object")
    if name not in value:
        raise Unreadable(f"field {name!r} is missing")
    return value[name]


def field_rule(case: Case) -> Found:
    got, want = field_of(case), case.value()
    spec = _spec_for(case, case.rule["field"], want)
    return (True, "") if equal(got, want, spec, case.same) else (False, f"{case.rule['field']} is {_say(got)}")


def set_rule(case: Case) -> Found:
    got = field_of(case)
    if not isinstance(got, list):
        return False, f"{case.rule['field']} is no list"
    if any(isinstance(v, list | dict) for v in got):
        return False, f"{case.rule['field']} holds more than plain values"
    want = [row[0] for row in case.answer()["rows"]]
    spec = _spec_for(case, case.rule["field"], want[0] if want else "")
    a = Counter(key_of(v, spec, case.same) for v in got)
    b = Counter({key_of(v, spec, case.same): 1 for v in want})
    if a == b:
        return True, ""
    return False, f"{(b - a).total()} members missing, {(a - b).total()} too many"


def records_rule(case: Case) -> Found:
    got, table = field_of(case), case.answer()
    if not isinstance(got, list) or not all(isinstance(v, dict) for v in got):
        return False, f"{case.rule['field']} is no list of objects"
    specs = {fold(c["name"]): c for c in case.rule["columns"]}
    names = [fold(n) for n in case.rule["key"]]
    there = [fold(c) for c in table["columns"]]
    rows = [dict(zip(there, row, strict=True)) for row in table["rows"]]
    objects = [{fold(k): v for k, v in item.items()} for item in got]

    def key(item: Json) -> tuple[Any, ...]:
        return tuple(key_of(item.get(n), specs.get(n, {}), case.same) for n in names)

    if Counter(map(key, objects)) != Counter(map(key, rows)):
        return False, f"{case.rule['field']} lists other items than it should"
    have = {key(item): item for item in objects}
    for row in rows:
        for name, spec in specs.items():
            if name in names or name not in there:
                continue
            cell = have[key(row)].get(name)
            if not equal(cell, row[name], spec, case.same):
                return False, f"{spec['name']} of {_say(key(row))} is {_say(cell)}"
    return True, ""


# --- text and files --------------------------------------------------------------------------------------
def figure_rule(case: Case) -> Found:
    want = case.value()
    spec = {"type": kind_of(want), "tolerance": case.rule.get("tolerance", 0.0)}
    return oracle_text.figure(oracle_files.words(case.path), case.rule["label"], want, spec, case.same)


def cite_rule(case: Case) -> Found:
    content = oracle_files.words(case.path)
    missing = [p for p in case.rule["paths"] if not oracle_text.names(content, p)]
    return (not missing, f"does not name {', '.join(missing)}" if missing else "")


def protected_rule(case: Case) -> Found:
    for path in case.rule["paths"]:
        before, after = case.start / path, case.end / path
        if before.is_file() and (after.is_symlink() or not after.is_file()):
            return False, f"{path} is gone"
        if before.is_file() and before.read_bytes() != after.read_bytes():
            return False, f"{path} was changed"
    return True, ""


def no_extra_rule(case: Case) -> Found:
    before, after = _listing(case.start), _listing(case.end) | set(case.links)
    allowed = {d["path"] for d in case.contract["deliverables"]}
    extra = sorted(after - before - allowed)
    gone = sorted(before - after)
    if extra or gone:
        return False, f"{'created ' + extra[0] if extra else 'deleted ' + gone[0]}"
    return True, ""


def edit_rule(case: Case) -> Found:
    table = case.answer("rows")
    return oracle_edits.edited(case, table)


RULES: dict[str, Callable[[Case], Found]] = {
    "format": format_rule,
    "rows": rows_rule,
    "cells": cells_rule,
    "order": order_rule,
    "field": field_rule,
    "set": set_rule,
    "records": records_rule,
    "figure": figure_rule,
    "cite": cite_rule,
    "edit": edit_rule,
    "rest": lambda case: oracle_edits.rest(case),
    "protected": protected_rule,
    "no_extra": no_extra_rule,
}


def judge(job: Json) -> dict[str, Any]:
    """Entry point. Returns requirement id -> {"ok": bool, "reason": str}, or {"error": ...} where the contract
    itself cannot be evaluated."""
    out: dict[str, Any] = {}
    for requirement in job["contract"]["requirements"]:
        try:
            ok, reason = RULES[requirement["rule"]["kind"]](Case(job, requirement))
            out[requirement["id"]] = {"ok": bool(ok), "reason": reason[:300]}
        except Unreadable as error:
            out[requirement["id"]] = {"ok": False, "reason": str(error)[:300]}
        except OSError as error:
            out[requirement["id"]] = {"ok": False, "reason": f"cannot be read ({error.strerror})"}
        except LookupError as error:
            out[requirement["id"]] = {"error": str(error).strip("'\"")[:300]}
    return out


def judge_many(job: Json) -> list[dict[str, Any]]:
    """Entry point for several end states of one start: what each changed lies below `end/N`."""
    out = []
    for number, state in enumerate(job["states"]):
        _complete(Path("start"), Path("end") / str(number), set(state["removed"]) | set(state["links"]))
        out.append(judge(dict(job, message=state["message"], links=state["links"], at=number)))
    return out


def _complete(start: Path, end: Path, absent: set[str]) -> None:
    """Fill an end state up with what it shares with the start."""
    for name in _listing(start) - absent:
        target = end / name
        if target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(start / name, target)


def _listing(root: Path) -> set[str]:
    return {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_symlink() or not p.is_dir()}


def _tabular(case: Case) -> bool:
    wanted = case.deliverable["id"]
    kinds = {r["rule"]["kind"] for r in case.contract["requirements"] if r.get("deliverable") == wanted}
    return bool(kinds & {"rows", "cells", "order"})


def _fields(case: Case) -> list[str]:
    """Fields that the rules of this deliverable name."""
    wanted = case.deliverable["id"]
    mine = [r["rule"] for r in case.contract["requirements"] if r.get("deliverable") == wanted]
    return [rule["field"] for rule in mine if "field" in rule]


def _spec_for(case: Case, name: str, value: Any) -> Json:
    spec = case.column(name)
    declared = any(fold(c["name"]) == fold(name) for c in case.deliverable.get("columns", ()))
    return spec if declared else {"name": name, "type": kind_of(value)}


def _value_column(table: Json, name: str, key_at: list[int]) -> int:
    there = [fold(c) for c in table["columns"]]
    if fold(name) in there:
        return there.index(fold(name))
    rest = [i for i in range(len(there)) if i not in key_at]
    if len(rest) != 1:
        raise LookupError(f"the answer has no column {name!r}")
    return rest[0]


def _say(value: Any) -> str:
    shown = "/".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return re.sub(r"\s+", " ", shown)[:60]
