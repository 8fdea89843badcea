"""Queries over the files of a context: how a contract states an answer without its value.

A query is data, not SQL text: two engines that share no code evaluate it (DuckDB for anchors, pandas for the
second opinion and the oracle), and a person can read it. The result is a table; a scalar is its only cell.
Steps run in the order of the fields: source, joins, derived, filters, group_by + measures (or select),
having, order_by, limit.
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
    sheet: Annotated[str | None, Field(description="sheet of a workbook; absent for other files")] = None


class Join(Part):
    """Join the table so far with another one. Columns of the right side that clash are refused."""

    right: Source | Query
    on: Annotated[tuple[tuple[str, str], ...], Field(min_length=1, description="pairs of left and right column")]
    how: Literal["inner", "left"] = "inner"


class Derived(Part):
    """A new column by arithmetic on two columns (or a column and a given)."""

    name: str
    op: Literal["add", "sub", "mul", "div", "abs_diff"]
    left: str
    right: str | Given


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
    select: Annotated[tuple[str, ...], Field(description="columns of the result when nothing is measured")] = ()
    having: Annotated[tuple[Filter, ...], Field(description="filters on the result's columns")] = ()
    order_by: tuple[Order, ...] = ()
    limit: Annotated[int | None, Field(ge=1)] = None


Join.model_rebuild()


class Table(Part):
    """A query's result: column names and rows of plain values (None for an empty cell)."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Scalar | None, ...], ...]
