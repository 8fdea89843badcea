"""Queries by pandas: the second opinion on every anchor, and the oracle's engine.

Own reading, own typing, own arithmetic (Decimal and Fraction on object columns). It shares the record of a
query with the DuckDB engine, and nothing else.
"""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd

from rover.construct.query.frames_tables import Typed, moment, number, read_frame
from rover_store.errors import PackageError
from rover_store.records.query import Derived, Filter, Given, Join, Measure, Query, Scalar, Source, Table

PLACES = 12
_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt,
    "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def evaluate(query: Query, givens: Mapping[str, Scalar], files_root: Path) -> Table:
    """The query's result. PackageError names the file or column that does not allow an answer."""
    return Session(files_root, givens).evaluate(query)


class Session:
    """Many queries over the same files; each source is read once."""

    def __init__(self, files_root: Path, givens: Mapping[str, Scalar]) -> None:
        self.root = files_root
        self.givens = givens
        self.read: dict[Source, Typed] = {}

    def evaluate(self, query: Query) -> Table:
        with localcontext(prec=80):
            typed = self._run(query)
        rows = typed.frame.to_numpy(dtype=object).tolist()
        names = list(typed.types)
        return Table(
            columns=tuple(names),
            rows=tuple(tuple(_out(v, typed.types[n]) for n, v in zip(names, row, strict=True)) for row in rows),
        )

    def _run(self, query: Query) -> Typed:
        step = _Steps(query.source.path, self.givens)
        now = self._source(query.source)
        for join in query.joins:
            right = self._source(join.right) if isinstance(join.right, Source) else self._run(join.right)
            if isinstance(join.right, Query) and join.right.limit is not None:
                raise step.bad("limit", "not in a joined query")
            now = step.join(now, right, join)
        for derived in query.derived:
            now = step.derive(now, derived)
        now = step.keep(now, query.filters)
        if query.group_by or query.measures:
            now = step.keep(step.measure(now, query), query.having)
        elif query.having:
            raise step.bad("having", "without measures or groups")
        return step.finish(now, query)

    def _source(self, source: Source) -> Typed:
        if source not in self.read:
            self.read[source] = read_frame(self.root, source)
        return self.read[source]


class _Steps:
    """The steps of one query, each from frame to frame."""

    def __init__(self, path: str, givens: Mapping[str, Scalar]) -> None:
        self.path = path
        self.givens = givens

    def bad(self, field: str, reason: str) -> PackageError:
        return PackageError(self.path, field, reason)

    def column(self, now: Typed, name: str, *, numeric: bool = False) -> list[Any]:
        if name not in now.types:
            raise self.bad(name, "unknown column")
        if numeric and now.types[name] not in ("integer", "number"):
            raise self.bad(name, "must be a number")
        return list(now.frame[name])

    def given(self, reference: Given) -> Scalar:
        try:
            return self.givens[reference.given]
        except KeyError:
            raise self.bad(reference.given, "given is missing") from None

    def given_number(self, reference: Given) -> Decimal:
        value = self.given(reference)
        found = None if isinstance(value, bool) else number(str(value))
        if found is None:
            raise self.bad(reference.given, "given is not a number")
        return found

    # --- joins -------------------------------------------------------------------------------------------
    def join(self, left: Typed, right: Typed, join: Join) -> Typed:
        keys = [b for _, b in join.on]
        a = left.frame.copy()
        b = right.frame.copy()
        marks = []
        for index, (x, y) in enumerate(join.on):
            self.column(left, x)
            self.column(right, y)
            a[("key", index)], b[("key", index)] = self._comparable(left, x, right, y)
            marks.append(("key", index))
        extra = [name for name in right.types if name not in keys]
        clash = [name for name in extra if name in left.types]
        if clash:
            raise self.bad(clash[0], "column on both sides of a join")
        b = b[b[marks].notna().all(axis=1)][[*extra, *marks]]
        merged = a.merge(b, on=marks, how=join.how) if len(b) or join.how == "inner" else a.assign(
            **dict.fromkeys(extra, None)
        )  # fmt: skip
        if join.how == "inner":
            merged = merged[merged[marks].notna().all(axis=1)]
        types = {**left.types, **{name: right.types[name] for name in extra}}
        return _typed(merged[list(types)], types)

    def _comparable(self, left: Typed, x: str, right: Typed, y: str) -> tuple[list[Any], list[Any]]:
        s, t = left.types[x], right.types[y]
        a, b = list(left.frame[x]), list(right.frame[y])
        if s == t or {s, t} == {"integer", "number"}:
            return a, b
        if {s, t} == {"integer", "text"}:
            return [None if v is None else str(v) for v in a], [None if v is None else str(v) for v in b]
        raise self.bad(y, f"a {s} column cannot be joined with a {t} column")

    # --- derived columns ---------------------------------------------------------------------------------
    def derive(self, now: Typed, derived: Derived) -> Typed:
        if derived.name in now.types:
            raise self.bad(derived.name, "column is there already")
        left = self.column(now, derived.left)
        if derived.op in ("year", "month"):
            if now.types[derived.left] not in ("date", "datetime"):
                raise self.bad(derived.left, "must be a date")
            kind = "integer" if derived.op == "year" else "text"
            values = [None if v is None else _part(v, derived.op) for v in left]
        else:
            self.column(now, derived.left, numeric=True)
            if derived.right is None:
                raise self.bad(derived.name, "second operand missing")
            whole = now.types[derived.left] == "integer"
            if isinstance(derived.right, Given):
                operand = self.given_number(derived.right)
                right = [operand] * len(left)
                whole = whole and operand == operand.to_integral_value()
            else:
                right = self.column(now, derived.right, numeric=True)
                whole = whole and now.types[derived.right] == "integer"
            pairs = zip(left, right, strict=True)
            values = [None if a is None or b is None else _calculate(derived.op, a, b) for a, b in pairs]
            kind = "integer" if whole and derived.op != "div" else "number"
        frame = now.frame.copy()
        frame[derived.name] = pd.Series(values, index=frame.index, dtype=object)
        return Typed(frame, {**now.types, derived.name: kind})

    # --- filters -----------------------------------------------------------------------------------------
    def keep(self, now: Typed, filters: tuple[Filter, ...]) -> Typed:
        for test in filters:
            values = self.column(now, test.column)
            holds = self._test(now.types[test.column], test)
            now = Typed(now.frame[[holds(v) for v in values]], now.types)
        return now

    def _test(self, kind: str, test: Filter) -> Callable[[Any], bool]:
        if test.op == "is_null":
            return lambda v: v is None
        if test.op == "not_null":
            return lambda v: v is not None
        if test.value is None:
            raise self.bad(test.column, f"{test.op} without a value")
        value = self.given(test.value)
        if test.op == "contains":
            if kind != "text" or not isinstance(value, str):
                raise self.bad(test.column, "contains wants text")
            return lambda v: v is not None and value in v
        wanted: Any = value
        if kind in ("integer", "number"):
            wanted = self.given_number(test.value)
        elif kind == "boolean":
            wanted = {"true": True, "false": False}.get(str(value).lower())
            if test.op not in ("eq", "ne"):
                wanted = None
        elif not isinstance(value, str):
            wanted = None
        elif kind in ("date", "datetime"):
            wanted = moment(value)
        if wanted is None:
            raise self.bad(test.column, f"{kind} cannot be compared ({test.op}) with {value!r}")
        compare = _TESTS[test.op]
        return lambda v: v is not None and compare(_moment(v) if isinstance(v, dt.date) else v, wanted)

    # --- groups ------------------------------------------------------------------------------------------
    def measure(self, now: Typed, query: Query) -> Typed:
        types: dict[str, str] = {}
        for name in query.group_by:
            self.column(now, name)
            types[name] = now.types[name]
        if query.group_by:
            by = query.group_by[0] if len(query.group_by) == 1 else list(query.group_by)
            groups = [part for _, part in now.frame.groupby(by, dropna=False, sort=False)]
        else:
            groups = [now.frame]
        columns: dict[str, list[Any]] = {n: [part[n].iloc[0] for part in groups] for n in query.group_by}
        for measure in query.measures:
            if measure.name in types:
                raise self.bad(measure.name, "column is there already")
            types[measure.name], fold = self._fold(now, measure)
            columns[measure.name] = [fold(part) for part in groups]
        return _typed(pd.DataFrame(columns, dtype=object), types)

    def _fold(self, now: Typed, measure: Measure) -> tuple[str, Callable[[pd.DataFrame], Any]]:
        name, fn, digits = measure.column, measure.fn, measure.decimals
        if name is None:
            if fn != "count":
                raise self.bad(measure.name, f"{fn} without a column")
            return "integer", lambda part: Decimal(len(part))
        self.column(now, name)
        kind = now.types[name]
        if fn == "count":
            return "integer", lambda part: Decimal(len(_present(part[name])))
        if fn == "count_distinct":
            return "integer", lambda part: Decimal(len(set(_present(part[name]))))
        numeric = kind in ("integer", "number")
        if not numeric and (fn in ("sum", "mean") or digits is not None or kind == "boolean"):
            raise self.bad(name, f"{fn} of a {kind} column")

        def fold(part: pd.DataFrame) -> Any:
            values = _present(part[name])
            if not values:
                return None
            if fn == "mean":
                return _round(Fraction(sum(values)) / len(values), PLACES if digits is None else digits)
            found = sum(values) if fn == "sum" else min(values) if fn == "min" else max(values)
            return found if digits is None else _round(Fraction(found), digits)

        return ("number" if fn == "mean" else kind), fold

    # --- order, limit, projection ------------------------------------------------------------------------
    def finish(self, now: Typed, query: Query) -> Typed:
        first = [(o.column, o.descending) for o in {o.column: o for o in query.order_by}.values()]
        for name in [*query.select, *(n for n, _ in first)]:
            self.column(now, name)
        rest = [(name, False) for name in now.types if name not in dict(first)]
        places = {name: i for i, name in enumerate(now.types)}
        rows = now.frame[list(now.types)].to_numpy(dtype=object).tolist()
        for name, descending in reversed([*first, *rest]):  # stable sorts, the least important first
            at = places[name]
            full = [r for r in rows if r[at] is not None]
            full.sort(key=lambda r, at=at: r[at], reverse=descending)  # type: ignore[misc]
            rows = full + [r for r in rows if r[at] is None]
        if query.limit is not None:
            if not first:
                raise self.bad("limit", "without an order")
            edge = rows[query.limit - 1 : query.limit + 1]
            if len(edge) == 2 and all(edge[0][places[n]] == edge[1][places[n]] for n, _ in first):
                raise self.bad(first[0][0], "the limit cuts through a tie")
            rows = rows[: query.limit]
        kept = list(query.select or now.types)
        frame = pd.DataFrame([[r[places[n]] for n in kept] for r in rows], columns=kept, dtype=object)
        return _typed(frame, {n: now.types[n] for n in kept})


def _typed(frame: pd.DataFrame, types: dict[str, str]) -> Typed:
    """A frame whose empty cells are None again, whatever pandas made of them."""
    blank = frame.astype(object)
    return Typed(blank.where(blank.notna(), None), types)


def _present(column: pd.Series[Any]) -> list[Any]:
    return [v for v in column if v is not None]


def _part(value: dt.date, op: str) -> Any:
    return Decimal(value.year) if op == "year" else f"{value.year:04d}-{value.month:02d}"


def _moment(value: dt.date) -> dt.datetime:
    return value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())


def _calculate(op: str, a: Decimal, b: Decimal) -> Decimal | None:
    if op == "div":
        return None if b == 0 else _round(Fraction(a) / Fraction(b), PLACES)
    if op == "mul":
        return _round(Fraction(a) * Fraction(b), PLACES)
    return {"add": a + b, "sub": a - b, "abs_diff": abs(a - b)}[op]


def _round(value: Fraction, digits: int) -> Decimal:
    """Half away from zero, exactly."""
    whole, rest = divmod(abs(value) * 10**digits, 1)
    units = int(whole) + (1 if rest * 2 >= 1 else 0)
    return Decimal(-units if value < 0 else units).scaleb(-digits)


def _out(value: Any, kind: str) -> Scalar | None:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Decimal):
        return int(value) if kind == "integer" or value == value.to_integral_value() else float(value)
    return str(value.isoformat())
