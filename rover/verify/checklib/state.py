"""Comparers of states: what an edit changed, what it had to leave alone, which files came and went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rover.verify.checklib.bounds import Unreadable
from rover.verify.checklib.evidence import Evidence
from rover.verify.checklib.objects import scalar
from rover.verify.checklib.read import Table, grid, raw, shared_workbook, sheet_title, table
from rover.verify.checklib.tables import RIGHT, Key, keys, kinds, share, shown
from rover.verify.checklib.values import Cell, Result, folded, is_empty, number, plain, same


def edited(
    start: Table,
    end: Table,
    key: Sequence[str],
    column: str,
    rows: Table,
    value: Any,
    *,
    tolerance: float = 0.0,
    kind: str | None = None,
) -> Result:
    """`column` holds `value` in the rows whose key `rows` lists, and in no other row that did not hold it before.

    `value` is a scalar, or a Table with the key and a column of that name: one value for each row.
    """
    how = kinds(rows, key)
    listed = keys(rows, key, how)
    given = _values(rows, value, key, column, how)
    before = _by_key(start, key, column, how)
    after = _by_key(end, key, column, how)
    wrong, spilled = [], []
    for k in listed:
        if not after.get(k) or not all(same(c, given[k], kind, tolerance) for c in after[k]):
            wrong.append(_name(k))
    values = {plain(v) for v in given.values()}
    if len(values) == 1:  # one value for all: rest_unchanged sees to what else changed
        only = next(iter(given.values()))
        for k, cells in after.items():
            held = [c for c in before.get(k, []) if same(c, only, kind, tolerance)]
            if k not in given and not held and any(same(c, only, kind, tolerance) for c in cells):
                spilled.append(_name(k))
    parts = [f"{column} is not right in {len(wrong)} of {len(listed)} rows ({shown(wrong)})"] if wrong else []
    parts += [f"{column} was set in {len(spilled)} other rows ({shown(spilled)})"] if spilled else []
    return share(len(listed) - len(wrong), len(listed) + len(spilled), f"{end.name}: {'; '.join(parts)}")


def _name(key: Key) -> str:
    return " / ".join(key)


def _by_key(found: Table, key: Sequence[str], column: str, how: Sequence[str]) -> dict[Key, list[Cell]]:
    out: dict[Key, list[Cell]] = {}
    for k, cell in zip(keys(found, key, how), found.column(column), strict=True):
        out.setdefault(k, []).append(cell)
    return out


def _values(rows: Table, value: Any, key: Sequence[str], column: str, how: Sequence[str]) -> dict[Key, Cell]:
    listed = keys(rows, key, how)
    if isinstance(value, Table) and len(value.columns) > 1:
        by_key = dict(zip(keys(value, key, how), value.column(column), strict=True))
        return {k: by_key.get(k) for k in listed}
    return dict.fromkeys(listed, scalar(value))


def untouched(found: Cell, was: Cell) -> bool:
    """The same cell: equal text, or the same number written in another way (007 and 7 are not)."""
    if is_empty(was) or is_empty(found):
        return is_empty(was) and is_empty(found)
    if plain(found).strip() == plain(was).strip():
        return True
    a, b = number(found), number(was)
    return a is not None and a == b and not (_padded(found) or _padded(was))


def _padded(value: Cell) -> bool:
    """Leading zeros make an identifier of digits."""
    words = plain(value).strip().lstrip("-")
    return len(words) > 1 and words[0] == "0" and words[1].isdigit()


def rest_unchanged(
    ev: Evidence,
    path: str,
    *,
    sheet: str | None = None,
    key: Sequence[str] = (),
    edits: Mapping[str, Table | None] | None = None,
) -> Result:
    """All but the edited cells is as it was: columns, row order, other cells, and a workbook's other sheets.

    `edits` maps each edited column to the rows whose cell may differ (a Table with the key columns), or to None
    where the whole column may.
    """
    start, end = table(ev.start(path), sheet), table(ev.end(path), sheet)
    if [folded(c) for c in start.columns] != [folded(c) for c in end.columns]:
        return 0.0, f"the columns of {end.name} changed: {shown(list(end.columns), 8)}"
    if len(start.rows) != len(end.rows):
        return 0.0, f"{end.name} has {len(end.rows)} rows, it had {len(start.rows)}"
    free = _free_cells(start, key, edits or {})
    changed = [
        f"row {r + 2}, {start.columns[c]}"
        for r, (old, new) in enumerate(zip(start.rows, end.rows, strict=True))
        for c, (was, cell) in enumerate(zip(old, new, strict=True))
        if (r, c) not in free and (-1, c) not in free and not untouched(cell, was)
    ]
    if changed:
        total = max(1, len(start.rows) * len(start.columns))
        return min(0.99, 1 - len(changed) / total), f"{end.name}: cells changed that should not: {shown(changed)}"
    if Path(path).suffix.lower() in (".xlsx", ".xlsm"):
        return _other_sheets(ev, path, sheet)
    return RIGHT


def _free_cells(start: Table, key: Sequence[str], edits: Mapping[str, Table | None]) -> set[tuple[int, int]]:
    """Cells that may differ as (row, column); row -1 stands for every row."""
    out: set[tuple[int, int]] = set()
    for column, rows in edits.items():
        c = start.index(column)
        if rows is None:
            out.add((-1, c))
            continue
        how = kinds(rows, key)
        listed = set(keys(rows, key, how))
        out |= {(r, c) for r, k in enumerate(keys(start, key, how)) if k in listed}
    return out


def _other_sheets(ev: Evidence, path: str, sheet: str | None) -> Result:
    """Formulas and values of all sheets but the edited one, and the sheets' names and order."""
    old, new = shared_workbook(ev.start(path)), shared_workbook(ev.end(path))
    if old.sheetnames != new.sheetnames:
        return 0.0, f"the sheets of {path} changed: {shown(new.sheetnames, 8)}"
    own = sheet_title(old, sheet, path)
    for worksheet in old.worksheets:
        title = worksheet.title
        if title == own:
            continue
        before, after = _filled(grid(worksheet, path)), _filled(grid(new[title], path))
        bad = sorted(at for at in before.keys() | after.keys() if not untouched(after.get(at), before.get(at)))
        if bad:
            return 0.5, f"{path}: sheet {title} changed in row {bad[0][0] + 1}, column {bad[0][1] + 1}"
    return RIGHT


def _filled(lines: list[list[Cell]]) -> dict[tuple[int, int], Cell]:
    return {(r, c): v for r, line in enumerate(lines) for c, v in enumerate(line) if not is_empty(v)}


def protected(ev: Evidence, paths: Sequence[str]) -> Result:
    """These files are byte for byte as at the start."""
    changed = []
    for path in paths:
        was = _bytes(ev.start(path))
        if was is None:
            continue
        try:
            now = _bytes(ev.end(path))
        except Unreadable as reason:
            changed.append(str(reason))
            continue
        if now != was:
            changed.append(path if now is not None else f"{path} (deleted)")
    return share(len(paths) - len(changed), len(paths), f"changed but protected: {shown(changed)}")


def _bytes(path: Path) -> bytes | None:
    return None if not path.exists() and not path.is_symlink() else raw(path, 1 << 30)


def no_extra(ev: Evidence, allowed: Sequence[str]) -> Result:
    """No file was created other than the allowed ones, and none was deleted."""
    before, after = set(ev.start_files()), set(ev.files())
    extra = sorted(after - before - set(allowed))
    gone = sorted(before - after)
    parts = [f"created beside what was asked: {shown(extra)}"] if extra else []
    parts += [f"deleted: {shown(gone)}"] if gone else []
    return (0.0, "; ".join(parts)) if parts else RIGHT
