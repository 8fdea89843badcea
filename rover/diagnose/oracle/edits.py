"""Edits in place, as the oracle reads them: the right cells changed, and nothing else. Runs inside the sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rover.diagnose.oracle import files
from rover.diagnose.oracle.files import Grid, fold
from rover.diagnose.oracle.values import empty, equal, key_of, kind_of, number

if TYPE_CHECKING:
    from rover.diagnose.oracle.case import Case

Json = Mapping[str, Any]


def edited(case: Case, table: Json) -> tuple[bool, str]:
    """`column` holds the value in exactly the rows whose key the answer lists."""
    column = case.rule["column"]
    names, at = _key(case, table)
    specs = [case.column(n) for n in names]
    listed = {tuple(key_of(r[i], s, case.same) for i, s in zip(at, specs, strict=True)) for r in table["rows"]}
    want = _wanted(case, names, specs)
    spec = dict(case.column(column))
    if not _declared(case, column):
        spec["type"] = kind_of(next(iter(want.values()), "")) if want else spec["type"]
    after = case.grid()
    before = files.grid(case.start / case.deliverable["path"], case.deliverable)
    had = _cells(case, before, names, specs, column)
    has = _cells(case, after, names, specs, column)
    for key in sorted(listed, key=str):
        cells = has.get(key)
        if not cells:
            return False, f"has no row {_say(key)}"
        target = want[key] if key in want else want.get(())
        if not all(equal(c, target, spec, case.same) for c in cells):
            return False, f"{column} of {_say(key)} is {cells[0]!r}"
    if set(want) == {()}:  # one value for all: no other row may have come to hold it
        for key, cells in has.items():
            held = [c for c in had.get(key, ()) if equal(c, want[()], spec, case.same)]
            if key not in listed and not held and any(equal(c, want[()], spec, case.same) for c in cells):
                return False, f"{column} of {_say(key)} should not change"
    return True, ""


def rest(case: Case) -> tuple[bool, str]:
    """Everything but the cells to edit is as it was: other cells, sheets, columns, row order."""
    spec = case.deliverable
    before = files.grid(case.start / spec["path"], spec)
    after = files.grid(case.end / spec["path"], spec)
    if [fold(h) for h in before.header] != [fold(h) for h in after.header]:
        return False, "has other columns than at the start"
    if len(before.rows) != len(after.rows):
        return False, f"has {len(after.rows)} rows instead of {len(before.rows)}"
    free = _free(case, before)
    for row, (then, now) in enumerate(zip(before.rows, after.rows, strict=True)):
        for at, (old, new) in enumerate(zip(then, now, strict=True)):
            if (row, at) not in free and not _as_before(new, old):
                return False, f"{before.header[at]} of row {row + 2} was changed"
    return _same_sheets(case) if spec["type"] == "xlsx" else (True, "")


def _free(case: Case, before: Grid) -> set[tuple[int, int]]:
    """The cells (row, column) that the edits of this deliverable may change."""
    out: set[tuple[int, int]] = set()
    for requirement in case.contract["requirements"]:
        rule = requirement["rule"]
        if rule["kind"] != "edit" or requirement.get("deliverable") != case.requirement.get("deliverable"):
            continue
        edit = case.other(requirement)
        table = edit.answer("rows")
        names, at = _key(edit, table)
        specs = [edit.column(n) for n in names]
        listed = {tuple(key_of(r[i], s, case.same) for i, s in zip(at, specs, strict=True)) for r in table["rows"]}
        where = [before.column(n) for n in names]
        column = before.column(rule["column"])
        for number_, row in enumerate(before.rows):
            if tuple(key_of(row[i], s, case.same) for i, s in zip(where, specs, strict=True)) in listed:
                out.add((number_, column))
    return out


def _same_sheets(case: Case) -> tuple[bool, str]:
    path = case.deliverable["path"]
    before = files.workbook(case.start / path, formulas=True)
    after = files.workbook(case.end / path, formulas=True)
    if list(before) != list(after):
        return False, "has other sheets than at the start"
    wanted = case.deliverable.get("sheet")
    edited_sheet = next((n for n in before if wanted is None or fold(n) == fold(wanted)), None)
    for name in before:
        if name != edited_sheet and _trim(before[name]) != _trim(after[name]):
            return False, f"sheet {name} was changed"
    return True, ""


def _trim(rows: list[list[Any]]) -> list[list[Any]]:
    """Rows without the empty cells and rows that follow the last value: writers differ in them."""
    out = [list(r) for r in rows]
    for row in out:
        while row and row[-1] is None:
            row.pop()
    while out and not out[-1]:
        out.pop()
    return out


def _key(case: Case, table: Json) -> tuple[list[str], list[int]]:
    """The columns of the answer are the key, unless the deliverable names one that the answer holds."""
    there = [fold(c) for c in table["columns"]]
    declared = [n for n in case.deliverable.get("key", ()) if fold(n) in there]
    names = declared or list(table["columns"])
    return names, [there.index(fold(n)) for n in names]


def _wanted(case: Case, names: list[str], specs: list[Json]) -> dict[tuple[Any, ...], Any]:
    """The value by key, or one value for all rows under the empty key."""
    stated = case.rule["value"]
    if "given" in stated:
        return {(): case.value()}
    table = case.answer("value")
    there = [fold(c) for c in table["columns"]]
    if not all(fold(n) in there for n in names):
        return {(): case.value()}
    at = [there.index(fold(n)) for n in names]
    rest_at = [i for i in range(len(there)) if i not in at]
    column = fold(case.rule["column"])
    value_at = there.index(column) if column in there else rest_at[-1]
    return {
        tuple(key_of(row[i], s, case.same) for i, s in zip(at, specs, strict=True)): row[value_at]
        for row in table["rows"]
    }


def _cells(case: Case, grid: Grid, names: list[str], specs: list[Json], column: str) -> dict[Any, list[Any]]:
    at = [grid.column(n) for n in names]
    value_at = grid.column(column)
    out: dict[Any, list[Any]] = {}
    for row in grid.rows:
        key = tuple(key_of(row[i], s, case.same) for i, s in zip(at, specs, strict=True))
        out.setdefault(key, []).append(row[value_at])
    return out


def _declared(case: Case, name: str) -> bool:
    return any(fold(c["name"]) == fold(name) for c in case.deliverable.get("columns", ()))


def _as_before(now: Any, then: Any) -> bool:
    """A cell that nobody was to touch: the same text, or the same number in another form."""
    if empty(now) or empty(then):
        return empty(now) and empty(then)
    if str(now).strip() == str(then).strip():
        return True
    a, b = number(now), number(then)
    return a is not None and a == b and not (_padded(now) or _padded(then))


def _padded(value: Any) -> bool:
    """Leading zeros make an id of digits: 007 is not 7."""
    written = str(value).strip().lstrip("-")
    return len(written) > 1 and written[0] == "0" and written[1].isdigit()


def _say(key: tuple[Any, ...]) -> str:
    return "/".join(str(part) for part in key)[:60]
