"""Values of a column written back as the contract says: dates as ISO dates, numbers without unit or sign.

Only what can be told without a guess is converted: every cell of the column in one other form, and only one.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence

from rover.diagnose.demands import asked, parts, sources
from rover_store.records import Contract
from rover_store.records.contract import CellsRule, EditRule
from rover_store.records.query import Derived, Filter

_DAYS = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})")
_UNIT = r"(?:[$€£]|EUR|USD|GBP|kg|km)?"
_MONEY = re.compile(rf"{_UNIT}\s?(-?\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|-?\d+(?:\.\d+)?)\s?{_UNIT}")


def as_the_contract_says(contract: Contract, path: str, data: bytes, column: str | None) -> bytes | None:
    """The table with one column (or each that the contract uses) in plain form; None where nothing is to be told."""
    if not path.endswith((".csv", ".tsv")):
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    mark = "\t" if path.endswith(".tsv") else ","
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=mark))
    if len(rows) < 2:
        return None
    wanted = {column} if column else columns_used(contract, path)
    changed = False
    for at, name in enumerate(rows[0]):
        if name not in wanted:
            continue
        cells = [row[at] if at < len(row) else "" for row in rows[1:]]
        back = _plain(cells)
        if back is None:
            continue
        changed = True
        for row, cell in zip(rows[1:], back, strict=True):
            if at < len(row):
                row[at] = cell
    if not changed:
        return None
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=mark, lineterminator="\r\n" if "\r\n" in text else "\n").writerows(rows)
    return out.getvalue().encode()


def columns_used(contract: Contract, path: str) -> set[str]:
    """Columns of a file that some answer compares, adds up or calculates with."""
    found: set[str] = set()
    for one in asked(contract):
        if not any(s.path == path for s in sources(one.query)):
            continue
        for part in parts(one.query):
            if isinstance(part, Filter):
                found.add(part.column)
            elif isinstance(part, Derived):
                found |= {part.left} | ({part.right} if isinstance(part.right, str) else set())
            elif getattr(part, "fn", None) is not None and getattr(part, "column", None):
                found.add(str(part.column))  # type: ignore[attr-defined]
    for need in contract.requirements:
        if isinstance(need.rule, CellsRule | EditRule):
            found.add(need.rule.column)
    return found


def _plain(cells: Sequence[str]) -> list[str] | None:
    """The cells in plain form, where all that are filled are in one other form."""
    filled = [c.strip() for c in cells if c.strip()]
    for whole in (_dates, _numbers):
        back = whole(filled)
        if back is not None:
            return [back(c.strip()) if c.strip() else c for c in cells]
    return None


def _dates(filled: list[str]) -> Callable[[str], str] | None:
    """Day first or month first: only where one of the two is impossible for some cell."""
    found = [_DAYS.fullmatch(c) for c in filled]
    if not filled or not all(found):
        return None
    pairs = [(int(m[1]), int(m[3])) for m in found if m]
    day_first, month_first = all(b <= 12 for _, b in pairs), all(a <= 12 for a, _ in pairs)
    dotted = all(m[2] == "." for m in found if m)
    if day_first == month_first and not (dotted and day_first):
        return None
    first = day_first if day_first != month_first else True

    def iso(cell: str) -> str:
        m = _DAYS.fullmatch(cell)
        assert m is not None
        day, month = (int(m[1]), int(m[3])) if first else (int(m[3]), int(m[1]))
        return f"{m[4]}-{month:02d}-{day:02d}"

    return iso


def _numbers(filled: list[str]) -> Callable[[str], str] | None:
    found = [_MONEY.fullmatch(c) for c in filled]
    if not filled or not all(found) or all(re.fullmatch(r"-?\d+(?:\.\d+)?", c) for c in filled):
        return None

    def plain(cell: str) -> str:
        m = _MONEY.fullmatch(cell)
        assert m is not None
        return m[1].replace(",", "")

    return plain
