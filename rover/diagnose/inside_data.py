"""Runs inside a box: how cells of source tables are written, which files hold the same records, what undoes a change.

Tables come as rows of text, whatever the format; nothing here knows a contract or an expected value but those given.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rover.construct.query.inside import derive

MAX_BYTES = 16 << 20
#: what a column may have been multiplied with, when it was written in another unit
FACTORS = (
    10.0, 100.0, 1000.0, 0.1, 0.01, 0.001, 12.0, 0.3048, 0.621371, 2.204623, 60.0, 1 / 60.0, 24.0, 1 / 24.0, 1 / 12.0,
)  # fmt: skip
#: as far as values that were written with fewer digits may be off
NEAR = 4e-3
ROUGHLY = 0.08
#: share of rows that must come out with the factor, and at most may without it
_HIGH, _LOW = 0.7, 0.3
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?")
_NUMBER_FORMS = (
    ("with a comma", re.compile(r"-?\d{1,3}(?:[. ]\d{3})*,\d+")),
    ("with a sign for thousands", re.compile(r"-?\d{1,3}(?:[, ']\d{3})+(?:\.\d+)?")),
    ("with a unit", re.compile(r"-?\d[\d.,]*\s?[A-Za-z%€$£°]+\d?|[€$£]\s?-?\d[\d.,]*")),
    ("as an estimate", re.compile(r"(?:~|ca\.?|about)\s?-?\d[\d.,]*")),
)
_DATE_FORMS = (
    ("as day, month and year", re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}")),
    ("without signs between", re.compile(r"(?:19|20)\d{6}")),
    ("in words", re.compile(r"\d{1,2} [A-Z][a-z]+ \d{4}|[A-Z][a-z]+ \d{1,2}, \d{4}")),
)
_EMPTY = frozenset({"", "na", "n/a", "nan", "null", "none"})


def spellings(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """Columns that are written otherwise: columns [{path, sheet, column, sort}] -> [{..., how, found}]."""
    out = []
    for one in payload["columns"]:
        cells = _cells(rows(Path(one["path"]), one.get("sheet")), one["column"])
        plain, forms = (_PLAIN, _NUMBER_FORMS) if one["sort"] == "number" else (_ISO, _DATE_FORMS)
        odd = [c for c in cells if not plain.fullmatch(c)]
        if not cells or len(odd) * 2 < len(cells):
            continue
        for how, form in forms:
            held = [c for c in odd if form.fullmatch(c)]
            if len(held) * 10 >= len(cells) * 8:
                out.append({**one, "how": how, "found": held[0]})
                break
    return out


def undone(payload: dict[str, Any]) -> dict[str, Any] | None:
    """The column and factor with which nearly every anchor is what its query gives, if there is one.

    payload: columns [{path, sheet, column}], queries, givens, anchors {id: rows}. Works on csv copies of the tables.
    A column that was written in a larger unit lost digits, so that rows at the edge of a condition may change sides.
    """
    tables: dict[tuple[str, str | None], list[list[str]]] = {}
    for one in payload["columns"]:
        key = (one["path"], one.get("sheet"))
        tables.setdefault(key, rows(Path(one["path"]), one.get("sheet")))
    best: tuple[float, dict[str, Any]] = (0.0, {})
    for one in payload["columns"]:
        table = tables[(one["path"], one.get("sheet"))]
        if not table or one["column"] not in table[0]:
            continue
        at = table[0].index(one["column"])
        as_it_is = _share(payload, one, table, at, 1.0)
        for factor in FACTORS if as_it_is <= _LOW else ():
            share = _share(payload, one, table, at, factor)
            if share > best[0]:
                best = (share, {**one, "factor": factor})
            if share == 1.0:
                return best[1]
    return best[1] if best[0] >= _HIGH else None


def copies(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """For each of `needed`, other files with the same header and many of the same rows that are not the same table."""
    out = []
    held = {path: rows(Path(path), None) for path in payload["files"]}
    for path in payload["needed"]:
        mine = held.get(path)
        if not mine or len(mine) < 3:
            continue
        for other, theirs in held.items():
            if other == path or len(theirs) < 3 or theirs[0] != mine[0] or theirs == mine:
                continue
            a, b = {tuple(r) for r in mine[1:]}, {tuple(r) for r in theirs[1:]}
            shared = len(a & b) / max(1, min(len(a), len(b)))
            like = _alike(mine, theirs)
            if shared >= 0.3 or like >= 0.8:
                column = _differing(mine, theirs)
                out.append({"path": path, "found": other, "shared": round(shared, 3), "column": column})
    return out


def rows(path: Path, sheet: str | None) -> list[list[str]]:
    """A table as rows of text, its header first; nothing where it cannot be read."""
    try:
        if not path.is_file() or path.is_symlink() or path.stat().st_size > MAX_BYTES:
            return []
        return _rows(path, sheet)
    except Exception:  # what cannot be read here is said by those who derive answers from it
        return []


def _rows(path: Path, sheet: str | None) -> list[list[str]]:
    ending = path.suffix.lower()
    if ending in (".xlsx", ".xlsm"):
        import openpyxl

        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            found = book[sheet] if sheet else book.worksheets[0]
            return [["" if c is None else _text(c) for c in row] for row in found.iter_rows(values_only=True)]
        finally:
            book.close()
    text = path.read_bytes().decode("utf-8-sig", "replace")
    if ending in (".json", ".jsonl"):
        items = [json.loads(x) for x in text.splitlines() if x.strip()] if ending == ".jsonl" else json.loads(text)
        header = list(dict.fromkeys(k for item in items for k in item))
        return [header, *([_text(item.get(h)) for h in header] for item in items)]
    if ending not in (".csv", ".tsv"):
        return []
    mark = "\t" if ending == ".tsv" else max(",;|\t", key=text.partition("\n")[0].count)
    return [[c.strip() for c in row] for row in csv.reader(io.StringIO(text, newline=""), delimiter=mark) if row]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if hasattr(value, "hour") and not (value.hour or value.minute or value.second):
        return str(value)[:10]
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _cells(table: list[list[str]], column: str) -> list[str]:
    if not table or column not in table[0]:
        return []
    at = table[0].index(column)
    return [c for row in table[1:] if at < len(row) and (c := row[at].strip()).lower() not in _EMPTY]


def _share(payload: dict[str, Any], one: dict[str, Any], table: list[list[str]], at: int, factor: float) -> float:
    """Share of the anchors' rows that come out near enough once the column is divided by the factor."""
    place = Path("undone.csv")
    with place.open("w", newline="") as out:
        write = csv.writer(out)
        write.writerow(table[0])
        for row in table[1:]:
            cells = list(row)
            if factor != 1.0 and at < len(cells) and _PLAIN.fullmatch(cells[at]):
                cells[at] = f"{float(cells[at]) / factor:.10g}"
            write.writerow(cells)
    queries = _pointed(payload["queries"], one["path"], one.get("sheet"), str(place))
    found = derive({"queries": queries, "givens": payload["givens"], "engine": "duckdb", "root": "."})
    wanted = [(name, row) for name, anchor in payload["anchors"].items() for row in anchor]
    held = [any(_near(mine, row) for mine in found[name].get("rows", ())) for name, row in wanted]
    return sum(held) / len(held) if held else 0.0


def _pointed(value: Any, path: str, sheet: str | None, to: str) -> Any:
    """Queries that read another file in place of one sheet."""
    if isinstance(value, list):
        return [_pointed(v, path, sheet, to) for v in value]
    if not isinstance(value, dict):
        return value
    if value.get("path") == path and value.get("sheet") == sheet:
        return {**{k: v for k, v in value.items() if k != "sheet"}, "path": to}
    return {k: _pointed(v, path, sheet, to) for k, v in value.items()}


def _near(mine: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """The same row: one cell exactly (its key), the numbers as far as lost digits leave them."""
    exact = any(a == b for a, b in zip(mine, wanted, strict=False))
    slack = ROUGHLY if exact else NEAR
    for a, b in zip(mine, wanted, strict=False):
        if _number(a) and _number(b):
            if abs(a - b) > max(slack * abs(b), 2.0 if exact and isinstance(b, int) else 1e-6):
                return False
        elif a != b:
            return False
    return len(mine) == len(wanted)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _alike(mine: list[list[str]], theirs: list[list[str]]) -> float:
    """Share of equal cells, row by row, of tables with as many rows."""
    if len(mine) != len(theirs):
        return 0.0
    total = sum(len(row) for row in mine[1:])
    same = sum(a == b for x, y in zip(mine[1:], theirs[1:], strict=True) for a, b in zip(x, y, strict=False))
    return same / total if total else 0.0


def _differing(mine: list[list[str]], theirs: list[list[str]]) -> str:
    """The column in which most rows differ, of tables with as many rows; empty where rows are missing."""
    if len(mine) != len(theirs):
        return ""
    counts = [0] * len(mine[0])
    for x, y in zip(mine[1:], theirs[1:], strict=True):
        for at, (a, b) in enumerate(zip(x, y, strict=False)):
            if at < len(counts):
                counts[at] += a != b
    best = max(range(len(counts)), key=counts.__getitem__, default=0)
    return mine[0][best] if counts and counts[best] else ""
