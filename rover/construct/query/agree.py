"""Whether two tables say the same: equal columns, equal rows, numbers within a relative 1e-9."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from itertools import zip_longest

from rover_store.records.query import Scalar, Table

Row = tuple[Scalar | None, ...]
CLOSE = 1e-9


def agree(left: Table, right: Table, *, ordered: bool = False) -> str:
    """Empty where the tables agree, else one line that says how they differ. Row order counts only if `ordered`."""
    if left.columns != right.columns:
        return f"columns differ: {', '.join(left.columns)} and {', '.join(right.columns)}"
    if len(left.rows) != len(right.rows):
        return f"{len(left.rows)} rows and {len(right.rows)} rows"
    pairs: Iterable[tuple[Row | None, Row | None]]
    pairs = zip(left.rows, right.rows, strict=True) if ordered else _paired(left.rows, right.rows)
    for a, b in pairs:
        if a is None or b is None:
            return f"no counterpart for the row {a or b}"
        if not all(same(x, y) for x, y in zip(a, b, strict=True)):
            return f"rows differ: {a} and {b}"
    return ""


def same(left: Scalar | None, right: Scalar | None) -> bool:
    """Equal values; numbers are close, whole or not, and truth values are no numbers."""
    if _is_number(left) and _is_number(right):
        return math.isclose(float(left), float(right), rel_tol=CLOSE, abs_tol=1e-12)  # type: ignore[arg-type]
    return type(left) is type(right) and left == right


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _paired(left: tuple[Row, ...], right: tuple[Row, ...]) -> Iterable[tuple[Row | None, Row | None]]:
    """Pair rows by what is not a number, then by the order of their numbers."""
    buckets: dict[object, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((left, right)):
        for row in rows:
            buckets[tuple("#" if _is_number(v) else (type(v).__name__, v) for v in row)][side].append(row)
    for mine, theirs in buckets.values():
        yield from zip_longest(sorted(mine, key=_numbers), sorted(theirs, key=_numbers))


def _numbers(row: Row) -> list[float]:
    return [float(v) for v in row if isinstance(v, int | float)]
