"""Queries over the files of a context: how a contract states an answer without its value.

A query is data, not SQL text: two engines that share no code evaluate it (DuckDB for anchors, pandas for the
second opinion and the oracle), and a person can read it. The result is a table; a scalar is its only cell.
Steps run in the order source, joins, derived, filters, group_by + measures, having, order_by, limit, select.

What both engines mean by a table:
- A cell is its text without surrounding white space; a cell without text is empty. Dates of a workbook read
  as YYYY-MM-DD, its numbers as their shortest decimal text, truth values as true or false.
- The type belongs to the column: integer, number, date, datetime or boolean where every cell fits it, else
  text. Cells that say NA, N/A, NaN or null are empty in columns that are not text. Digits with a leading zero
  or a plus are text (codes). Numbers have at most 18 digits before and 18 after the point.
- Arithmetic is decimal and exact; products, quotients and unrounded means are kept to 12 decimals. Rounding is
  half away from zero. A quotient by zero is empty; arithmetic with an empty cell is empty.
- Aggregates skip empty cells; sum, mean, min and max of none are empty. Empty keys form a group of their own;
  they never join.
- Text compares by code point, as written. Rows come sorted by `order_by`, then by all columns; empty cells
  last. A limit needs an order and must not cut through a tie.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rover_store.records.base import Part

Scalar = str | int | float | bool


class Given(Part):
    """A reference to a `given` value of the contract, by name."""

    given: Annotated[str, Field(description="name of the given value")]


class Source(Part):
    """A table in a file of the workspace: csv, tsv, xlsx (with a sheet), json or jsonl (a list of objects)."""

    path: Annotated[str, Field(description="path in the workspace, with /")]
    sheet: Annotated[str | None, Field(description="sheet of a workbook (default the first)")] = None


class Join(Part):
    """Join the table so far with another one. The right side's key columns are left out; others must not clash."""

    right: Source | Query
    on: Annotated[tuple[tuple[str, str], ...], Field(min_length=1, description="pairs of left and right column")]
    how: Literal["inner", "left"] = "inner"


class Derived(Part):
    """A new column: arithmetic on a column and another one or a given, or the year or month of a date."""

    name: str
    op: Annotated[
        Literal["add", "sub", "mul", "div", "abs_diff", "year", "month"],
        Field(description="year is an integer, month is text such as 2024-03; both take no right side"),
    ]
    left: str
    right: Annotated[str | Given | None, Field(description="a column's name, or a given")] = None


class Filter(Part):
    """Keep the rows for which `column op value` holds. An empty cell satisfies only `is_null`."""

    column: str
    op: Literal["eq", "ne", "lt", "le", "gt", "ge", "contains", "is_null", "not_null"]
    value: Annotated[Given | None, Field(description="always a given: the request must state it")] = None


class Measure(Part):
    """An aggregate over each group. `column` is absent for `count` of rows."""

    name: str
    fn: Literal["count", "count_distinct", "sum", "mean", "min", "max"]
    column: str | None = None
    decimals: Annotated[int | None, Field(ge=0, le=9, description="round half away from zero to so many")] = None


class Order(Part):
    column: str
    descending: bool = False


class Query(Part):
    """One question to the files of a context."""

    source: Source
    joins: tuple[Join, ...] = ()
    derived: tuple[Derived, ...] = ()
    filters: tuple[Filter, ...] = ()
    group_by: tuple[str, ...] = ()
    measures: tuple[Measure, ...] = ()
    select: Annotated[tuple[str, ...], Field(description="columns of the result in this order; empty: all")] = ()
    having: Annotated[tuple[Filter, ...], Field(description="filters on groups and measures")] = ()
    order_by: tuple[Order, ...] = ()
    limit: Annotated[int | None, Field(ge=1)] = None


Join.model_rebuild()


class Table(Part):
    """A query's result: column names and rows of plain values (None for an empty cell)."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Scalar | None, ...], ...]
