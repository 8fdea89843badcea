"""Comparers of tables. Each returns (score, reason); the score is 1.0 only where everything is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from rover.verify.checklib.read import Table
from rover.verify.checklib.values import Cell, Result, canonical, folded, is_empty, kind_of, number, plain, same
from rover.verify.checklib.values import date as date_of

RIGHT: Result = (1.0, "as asked")
Key = tuple[str, ...]


def every(*results: Result) -> Result:
    """All of several findings: the mean score and the first reason of one that is not right."""
    if not results:
        return RIGHT
    bad = [reason for score, reason in results if score < 1]
    return (sum(score for score, _ in results) / len(results), "; ".join(bad[:2])) if bad else RIGHT


def share(right: int, total: int, reason: str) -> Result:
    """`right` of `total`: 1.0 exactly when they are equal, never rounded up to it."""
    return RIGHT if right == total else (right / total, reason)


def shown(values: Sequence[object], limit: int = 3) -> str:
    """The first few values, for a reason."""
    head = ", ".join(_short(v) for v in values[:limit])
    return head + (f" and {len(values) - limit} more" if len(values) > limit else "")


def _short(value: object) -> str:
    words = " / ".join(plain(v) for v in value) if isinstance(value, tuple) else plain(value)
    words = " ".join(words.split()) or "(empty)"
    return words if len(words) <= 60 else words[:57] + "..."


def kinds(expected: Table, columns: Sequence[str], named: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """How each column is compared: as named, else by its expected values if they are all of one kind."""
    out = []
    for c in columns:
        if named and c in named:
            out.append(named[c])
            continue
        seen = {kind_of(v) for v in expected.column(c) if not is_empty(v)}
        out.append(seen.pop() if len(seen) == 1 else "text")
    return tuple(out)


def keys(found: Table, key: Sequence[str], kind: Sequence[str]) -> list[Key]:
    """The key of every row in canonical form."""
    return [tuple(canonical(v, k) for v, k in zip(row, kind, strict=True)) for row in found.pick(key)]


def has_columns(found: Table, columns: Sequence[str], *, extra: bool = True, order: bool = False) -> Result:
    """The named columns are there; where asked, no others and in that order."""
    have = [folded(c) for c in found.columns]
    missing = [c for c in columns if folded(c) not in have]
    if missing:
        return share(len(columns) - len(missing), len(columns), f"{found.name} lacks the column {shown(missing)}")
    double = [c for c in columns if have.count(folded(c)) > 1]
    if double:
        return 0.5, f"{found.name} has two columns named {shown(double)}"
    wanted = [folded(c) for c in columns]
    if not extra and set(have) - set(wanted):
        more = [c for c in found.columns if folded(c) not in wanted]
        return 0.5, f"{found.name} has other columns too: {shown(more)}"
    if order and [c for c in have if c in wanted] != wanted:
        return 0.5, f"the columns of {found.name} are not in the order asked for"
    return RIGHT


def rows_match(
    found: Table, expected: Table, key: Sequence[str], *, kind: Mapping[str, str] | None = None
) -> Result:
    """The keys found are exactly the keys expected: none missing, none twice, none extra."""
    how = kinds(expected, key, kind)
    names = dict(zip(keys(found, key, how), found.pick(key), strict=True))
    names |= dict(zip(keys(expected, key, how), expected.pick(key), strict=True))
    good, total, reason = counted(Counter(keys(found, key, how)), Counter(keys(expected, key, how)), names)
    return share(good, total, f"{found.name}: {reason}")


def counted(have: Counter[Key], want: Counter[Key], names: Mapping[Key, object]) -> tuple[int, int, str]:
    """(right, total, reason) of two multisets; what is too much counts in the total. Empty ones are right."""
    missing, extra = want - have, have - want
    twice = [names[k] for k in extra if k in want]
    other = [names[k] for k in extra if k not in want]
    parts = []
    if missing:
        parts.append(f"{missing.total()} of {want.total()} missing: {shown([names[k] for k in missing])}")
    if twice:
        parts.append(f"given more than once: {shown(twice)}")
    if other:
        parts.append(f"{sum(n for k, n in extra.items() if k not in want)} too many: {shown(other)}")
    return want.total() - missing.total(), want.total() + extra.total(), "; ".join(parts)


def cells_match(
    found: Table,
    expected: Table,
    key: Sequence[str],
    column: str,
    *,
    tolerance: float = 0.0,
    kind: str | None = None,
    key_kind: Mapping[str, str] | None = None,
    expected_column: str | None = None,
) -> Result:
    """For each expected key the column holds the expected value. A missing row is wrong; extra rows are not
    this criterion's business. Without a key both tables are one row."""
    how = kinds(expected, key, key_kind)
    have: dict[Key, list[Cell]] = {}
    for k, cell in zip(keys(found, key, how), found.column(column), strict=True):
        have.setdefault(k, []).append(cell)
    wrong: list[str] = []
    want = expected.column(expected_column or column)
    for k, row, value in zip(keys(expected, key, how), expected.pick(key), want, strict=True):
        cells = have.get(k, [])
        if cells and all(same(c, value, kind, tolerance) for c in cells):
            continue
        got = f"{_short(cells[0])}" if cells else "no such row"
        wrong.append(f"{_short(row)}: {got}" if key else got)
    total = len(expected.rows)
    return share(
        total - len(wrong), total, f"{found.name}: {column} is wrong in {len(wrong)} of {total} rows ({shown(wrong)})"
    )


def in_order(found: Table, column: str, *, descending: bool = False, kind: str | None = None) -> Result:
    """Rows are sorted by the column, ties in any order. A table without rows is in no order, nor is an empty cell."""
    cells = found.column(column)
    if not cells:
        return 0.0, f"{found.name} has no rows"
    values = [None if is_empty(c) else _rank(c, kind or _column_kind(cells)) for c in cells]
    if None in values:
        bad = cells[values.index(None)]
        return 0.0, f"{found.name}: {column} holds {_short(bad)!r}, which has no place in the order"
    ranks = [v for v in values if v is not None]
    pairs = list(pairwise(ranks))
    good = sum((a >= b) if descending else (a <= b) for a, b in pairs)
    way = "descending" if descending else "ascending"
    return share(good, len(pairs), f"{found.name} is not sorted by {column}, {way}") if pairs else RIGHT


def _column_kind(cells: Sequence[Cell]) -> str:
    if all(number(c) is not None for c in cells):
        return "number"
    return "date" if all(date_of(c) is not None for c in cells) else "text"


def _rank(cell: Cell, kind: str) -> tuple[float, str] | None:
    if kind in ("number", "integer"):
        n = number(cell)
        return None if n is None else (n, "")
    if kind == "date":
        d = date_of(cell)
        return None if d is None else (0.0, d)
    return 0.0, folded(cell)
