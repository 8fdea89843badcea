"""Queries by DuckDB: the engine that gives the anchors.

Files are read here (duck_tables), never by DuckDB, whose file access, extensions and configuration are shut.
No name of a user's column enters the SQL: columns are c0, c1, ... and values are parameters. Numbers are
128-bit integers at a known scale, so sums, products and rounding are exact; an overflow is an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from rover.construct.query.duck_tables import load, parse_moment, parse_number, scaled
from rover_store.errors import PackageError
from rover_store.records.query import Derived, Filter, Join, Measure, Query, Scalar, Source, Table

KEPT = 12  # decimals of products, quotients and unrounded means
MAX_ROWS = 200_000

_SQL_TYPE = {
    "integer": "HUGEINT", "number": "HUGEINT", "text": "VARCHAR",
    "date": "DATE", "datetime": "TIMESTAMP", "boolean": "BOOLEAN",
}  # fmt: skip
_COMPARE = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoload_known_extensions": False, "autoinstall_known_extensions": False, "enable_external_access": False,
    "threads": 1, "memory_limit": "1GB", "temp_directory": "", "lock_configuration": True,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Col:
    """A column of a relation: its SQL name, its kind and the scale of its numbers."""

    sql: str
    kind: str
    scale: int = 0

    @property
    def numeric(self) -> bool:
        return self.kind in ("integer", "number")


@dataclass(frozen=True, slots=True)
class Relation:
    """A SELECT and what its columns are, by their names in the query."""

    sql: str
    columns: dict[str, Col]


def evaluate(query: Query, givens: Mapping[str, Scalar], files_root: Path) -> Table:
    """The query's result. PackageError names the file or column that does not allow an answer."""
    return Session(files_root, givens).evaluate(query)


class Session:
    """One connection that loads each source once, for many queries over the same files."""

    def __init__(self, files_root: Path, givens: Mapping[str, Scalar]) -> None:
        self.root = files_root
        self.givens = givens
        self.connection = duckdb.connect(":memory:", config=_CONFIG)
        self.loaded: dict[Source, Relation] = {}

    def evaluate(self, query: Query) -> Table:
        compiler = _Compiler(self)
        try:
            relation = compiler.query(query)
            names = list(relation.columns)
            rows = self.connection.execute(relation.sql, compiler.parameters).fetchmany(MAX_ROWS + 1)
        except duckdb.Error as error:
            raise PackageError(query.source.path, "", " ".join(str(error).split())[:200]) from None
        if len(rows) > MAX_ROWS:
            raise PackageError(query.source.path, "", f"more than {MAX_ROWS} rows in the answer")
        if query.limit is not None:
            rows = self._cut(query, names, rows)
        kept = query.select or tuple(names)
        at = [names.index(name) for name in kept]
        kinds = [relation.columns[name] for name in kept]
        return Table(
            columns=kept,
            rows=tuple(tuple(_plain(row[i], col) for i, col in zip(at, kinds, strict=True)) for row in rows),
        )

    def _cut(self, query: Query, names: list[str], rows: list[Any]) -> list[Any]:
        limit = query.limit or 0
        at = [names.index(o.column) for o in query.order_by]
        if len(rows) > limit and all(rows[limit][i] == rows[limit - 1][i] for i in at):
            raise PackageError(query.source.path, query.order_by[0].column, f"a tie at the limit of {limit} rows")
        return rows[:limit]

    def source(self, source: Source) -> Relation:
        """Load a file into a table of the connection, once."""
        if source not in self.loaded:
            columns = load(self.root, source)
            table = f"t{len(self.loaded)}"
            cols = {c.name: Col(f"c{i}", c.kind, c.scale) for i, c in enumerate(columns)}
            types = ", ".join(f"c{i} {_SQL_TYPE[c.kind]}" for i, c in enumerate(columns))
            casts = ", ".join(
                f"CAST(unnest(?::VARCHAR[]) AS {_SQL_TYPE[c.kind]}) AS c{i}" for i, c in enumerate(columns)
            )
            self.connection.execute(f"CREATE TABLE {table} ({types})")
            if columns and columns[0].values:
                self.connection.execute(f"INSERT INTO {table} SELECT {casts}", [c.values for c in columns])
            self.loaded[source] = Relation(f"SELECT * FROM {table}", cols)
        return self.loaded[source]


class _Compiler:
    """One query -> one SELECT. Columns get fresh SQL names, so that no two of a statement clash."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.parameters: list[Any] = []
        self.fresh = (f"x{i}" for i in itertools.count())

    # --- the steps of a query ----------------------------------------------------------------------------
    def query(self, query: Query) -> Relation:
        """All steps but the final cut and projection, which need the ordered rows."""
        self.path = query.source.path
        now = self._renamed(self.session.source(query.source))
        for join in query.joins:
            now = self._join(now, join)
        for derived in query.derived:
            now = self._derive(now, derived)
        now = self._filter(now, query.filters)
        if query.group_by or query.measures:
            now = self._filter(self._measure(now, query), query.having)
        elif query.having:
            raise self._bad(query.having[0].column, "having needs measures or groups")
        for name in query.select:
            self._col(now, name)
        return self._ordered(now, query)

    def _right(self, right: Source | Query) -> Relation:
        if isinstance(right, Source):
            return self._renamed(self.session.source(right))
        if right.limit is not None:
            raise self._bad(right.source.path, "a joined query has no limit")
        path = self.path
        inner = self.query(right)
        self.path = path
        kept = right.select or tuple(inner.columns)
        return self._renamed(Relation(inner.sql, {name: inner.columns[name] for name in kept}))

    def _renamed(self, relation: Relation) -> Relation:
        columns = {n: Col(next(self.fresh), c.kind, c.scale) for n, c in relation.columns.items()}
        pairs = ", ".join(f"{relation.columns[n].sql} AS {c.sql}" for n, c in columns.items())
        return Relation(f"SELECT {pairs} FROM ({relation.sql})", columns)

    def _join(self, left: Relation, join: Join) -> Relation:
        right = self._right(join.right)
        keys = [r for _, r in join.on]
        terms = []
        for a, b in join.on:
            x, y = self._col(left, a), self._col(right, b)
            terms.append("{} = {}".format(*self._alike(x, y, b)))
        for name in right.columns:
            if name not in keys and name in left.columns:
                raise self._bad(name, "both sides of the join have this column")
        columns = {**left.columns, **{n: c for n, c in right.columns.items() if n not in keys}}
        listed = ", ".join(c.sql for c in columns.values())
        kind = "LEFT" if join.how == "left" else "INNER"
        sql = f"SELECT {listed} FROM ({left.sql}) {kind} JOIN ({right.sql}) ON {' AND '.join(terms)}"
        return Relation(sql, columns)

    def _alike(self, x: Col, y: Col, name: str) -> tuple[str, str]:
        """Two columns as SQL that compares: numbers at one scale, an integer against text as its digits."""
        if x.numeric and y.numeric:
            scale = max(x.scale, y.scale)
            return _at(x.sql, x.scale, scale), _at(y.sql, y.scale, scale)
        if x.kind == y.kind:
            return x.sql, y.sql
        if {x.kind, y.kind} == {"integer", "text"}:
            return f"CAST({x.sql} AS VARCHAR)", f"CAST({y.sql} AS VARCHAR)"
        raise self._bad(name, f"joins {x.kind} with {y.kind}")

    def _derive(self, now: Relation, derived: Derived) -> Relation:
        if derived.name in now.columns:
            raise self._bad(derived.name, "the column exists already")
        left = self._col(now, derived.left)
        if derived.op in ("year", "month"):
            if left.kind not in ("date", "datetime"):
                raise self._bad(derived.left, f"is {left.kind}, not a date")
            year, month = f"CAST(year({left.sql}) AS HUGEINT)", f"substr(CAST({left.sql} AS VARCHAR), 1, 7)"
            sql, kind, scale = (year, "integer", 0) if derived.op == "year" else (month, "text", 0)
        else:
            a, b = self._number(left, derived.left), self._operand(now, derived)
            sql, scale = _arithmetic(derived.op, a, b)
            kind = "integer" if scale == 0 and a.kind == b.kind == "integer" else "number"
        col = Col(next(self.fresh), kind, scale)
        return Relation(f"SELECT *, {sql} AS {col.sql} FROM ({now.sql})", {**now.columns, derived.name: col})

    def _operand(self, now: Relation, derived: Derived) -> Col:
        if isinstance(derived.right, str):
            return self._number(self._col(now, derived.right), derived.right)
        if derived.right is None:
            raise self._bad(derived.name, "arithmetic needs a right side")
        number = self._given_number(derived.right.given)
        scale = max(0, -int(number.as_tuple().exponent))
        return Col(self._parameter(scaled(number, scale), "HUGEINT"), "number" if scale else "integer", scale)

    def _filter(self, now: Relation, filters: tuple[Filter, ...]) -> Relation:
        terms = [self._term(self._col(now, f.column), f) for f in filters]
        return Relation(f"SELECT * FROM ({now.sql}) WHERE {' AND '.join(terms)}", now.columns) if terms else now

    def _term(self, col: Col, test: Filter) -> str:
        if test.op in ("is_null", "not_null"):
            return f"{col.sql} IS {'NOT ' if test.op == 'not_null' else ''}NULL"
        if test.value is None:
            raise self._bad(test.column, f"{test.op} needs a value")
        value = self._given(test.value.given)
        if test.op == "contains":
            if col.kind != "text" or not isinstance(value, str):
                raise self._bad(test.column, "contains is for text")
            return f"contains({col.sql}, {self._parameter(value, 'VARCHAR')})"
        if col.numeric:
            number = self._given_number(test.value.given)
            scale = max(col.scale, -int(number.as_tuple().exponent))
            parameter = self._parameter(scaled(number, scale), "HUGEINT")
            return f"{_at(col.sql, col.scale, scale)} {_COMPARE[test.op]} {parameter}"
        if col.kind == "boolean":
            truth = str(value).lower()
            if truth not in ("true", "false") or test.op not in ("eq", "ne"):
                raise self._bad(test.column, "is true or false, compared by eq or ne alone")
            return f"{col.sql} {_COMPARE[test.op]} {self._parameter(truth, 'BOOLEAN')}"
        if not isinstance(value, str) or (col.kind != "text" and not parse_moment(value)):
            raise self._bad(test.column, f"is {col.kind}, compared with {value!r}")
        sql_type = "VARCHAR" if col.kind == "text" else "TIMESTAMP"
        return f"CAST({col.sql} AS {sql_type}) {_COMPARE[test.op]} {self._parameter(value, sql_type)}"

    def _measure(self, now: Relation, query: Query) -> Relation:
        groups = {name: self._col(now, name) for name in query.group_by}
        listed = [c.sql for c in groups.values()]
        columns = dict(groups)
        for measure in query.measures:
            if measure.name in columns:
                raise self._bad(measure.name, "the column exists already")
            sql, kind, scale = self._aggregate(now, measure)
            col = columns[measure.name] = Col(next(self.fresh), kind, scale)
            listed.append(f"{sql} AS {col.sql}")
        tail = f" GROUP BY {', '.join(c.sql for c in groups.values())}" if groups else ""
        return Relation(f"SELECT {', '.join(listed)} FROM ({now.sql}){tail}", columns)

    def _aggregate(self, now: Relation, measure: Measure) -> tuple[str, str, int]:
        fn, digits = measure.fn, measure.decimals
        if measure.column is None:
            if fn != "count":
                raise self._bad(measure.name, f"{fn} needs a column")
            return "CAST(count(*) AS HUGEINT)", "integer", 0
        col = self._col(now, measure.column)
        if fn in ("count", "count_distinct"):
            inner = f"DISTINCT {col.sql}" if fn == "count_distinct" else col.sql
            return f"CAST(count({inner}) AS HUGEINT)", "integer", 0
        if fn in ("min", "max") and not col.numeric:
            if digits is not None or col.kind == "boolean":
                raise self._bad(measure.column, f"{fn} with this column or rounding makes no sense")
            return f"{fn}({col.sql})", col.kind, 0
        self._number(col, measure.column)
        if fn == "mean":
            scale = KEPT if digits is None else digits
            top, bottom = f"sum({col.sql})", f"CAST(count({col.sql}) AS HUGEINT)"
            return _quotient(top, bottom, scale - col.scale), "number" if scale else "integer", scale
        sql = f"{fn}({col.sql})"
        if digits is None or digits >= col.scale:
            return sql, col.kind, col.scale
        return _at(sql, col.scale, digits), "number" if digits else "integer", digits

    def _ordered(self, now: Relation, query: Query) -> Relation:
        if query.limit is not None and not query.order_by:
            raise self._bad("limit", "a limit needs an order")
        first = {o.column: o.descending for o in query.order_by}
        keys = [f"{self._col(now, n).sql} {'DESC' if down else 'ASC'} NULLS LAST" for n, down in first.items()]
        keys += [f"{c.sql} ASC NULLS LAST" for n, c in now.columns.items() if n not in first]
        listed = ", ".join(c.sql for c in now.columns.values())
        cut = f" LIMIT {query.limit + 1}" if query.limit is not None else ""
        return Relation(f"SELECT {listed} FROM ({now.sql}) ORDER BY {', '.join(keys)}{cut}", now.columns)

    # --- names, givens, parameters -----------------------------------------------------------------------
    def _bad(self, field: str, reason: str) -> PackageError:
        return PackageError(self.path, field, reason)

    def _col(self, relation: Relation, name: str) -> Col:
        if name not in relation.columns:
            raise self._bad(name, "no such column")
        return relation.columns[name]

    def _number(self, col: Col, name: str) -> Col:
        if not col.numeric:
            raise self._bad(name, f"is {col.kind}, not a number")
        return col

    def _given(self, name: str) -> Scalar:
        if name not in self.session.givens:
            raise self._bad(name, "no such given")
        return self.session.givens[name]

    def _given_number(self, name: str) -> Decimal:
        value = self._given(name)
        number = None if isinstance(value, bool) else parse_number(value if isinstance(value, str) else repr(value))
        if number is None:
            raise self._bad(name, f"{value!r} is not a number")
        return number

    def _parameter(self, value: str, sql_type: str) -> str:
        self.parameters.append(value)
        return f"CAST(${len(self.parameters)}::VARCHAR AS {sql_type})"


# --- arithmetic on scaled integers -----------------------------------------------------------------------
def _power(exponent: int) -> str:
    return f"{10**exponent}::HUGEINT"


def _at(sql: str, scale: int, wanted: int) -> str:
    """The number at another scale: more digits by multiplying, fewer by rounding half away from zero."""
    if wanted == scale:
        return sql
    return f"({sql} * {_power(wanted - scale)})" if wanted > scale else _quotient(sql, _power(0), wanted - scale)


def _quotient(top: str, bottom: str, shift: int) -> str:
    """top * 10^shift / bottom as an integer, rounded half away from zero; NULL where bottom is zero."""
    if shift >= 0:
        top = f"({top} * {_power(shift)})"
    else:
        bottom = f"({bottom} * {_power(-shift)})"
    whole = f"((2 * abs({top}) + abs({bottom})) // nullif(2 * abs({bottom}), 0))"
    return f"CAST(sign({top}) * sign({bottom}) * {whole} AS HUGEINT)"


def _arithmetic(op: str, a: Col, b: Col) -> tuple[str, int]:
    if op == "mul":
        scale = a.scale + b.scale
        sql = f"({a.sql} * {b.sql})"
        return (_at(sql, scale, KEPT), KEPT) if scale > KEPT else (sql, scale)
    if op == "div":
        return _quotient(a.sql, b.sql, KEPT - a.scale + b.scale), KEPT
    scale = max(a.scale, b.scale)
    x, y = _at(a.sql, a.scale, scale), _at(b.sql, b.scale, scale)
    return {"add": f"({x} + {y})", "sub": f"({x} - {y})", "abs_diff": f"abs({x} - {y})"}[op], scale


def _plain(value: Any, col: Col) -> Scalar | None:
    if value is None or isinstance(value, bool | str):
        return value
    if col.kind == "integer":
        return int(value)
    if col.kind == "number":
        return float(Decimal(int(value)).scaleb(-col.scale))
    return str(value.isoformat())
