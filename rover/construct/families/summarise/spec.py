"""A summary as the builder means it: what is joined, kept, grouped, measured, sorted, and where it goes.

Gives the query of the answer, the contract and the request. Solvers never see it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from rover.construct.families import guards, wording
from rover.construct.families.wording import Condition, listing, name, place
from rover_store.records import Contract, Deliverable, GivenValue, Query, Requirement, Source
from rover_store.records.contract import Answer, CellsRule, Column, FormatRule, OrderRule, RowsRule
from rover_store.records.query import Given, Join, Measure, Order

Kind = Literal["text", "integer", "number", "date", "boolean"]


@dataclass(frozen=True, slots=True)
class Lookup:
    """A join along a key that is unique on the right."""

    right: Source
    left_column: str
    right_column: str


@dataclass(frozen=True, slots=True)
class Summary:
    source: Source
    lookups: tuple[Lookup, ...]
    conditions: tuple[Condition, ...]
    groups: tuple[Column, ...]
    measures: tuple[Measure, ...]
    #: smallest count or sum that a group needs to stay: column of the result and the given's value
    floor: Condition | None
    order: Order | None
    deliverable: Deliverable

    def query(self) -> Query:
        joins = tuple(Join(right=j.right, on=((j.left_column, j.right_column),)) for j in self.lookups)
        return Query(
            source=self.source,
            joins=joins,
            filters=tuple(c.filter() for c in self.conditions),
            group_by=tuple(c.name for c in self.groups),
            measures=self.measures,
            having=(self.floor.filter(),) if self.floor else (),
        )

    def givens(self) -> tuple[GivenValue, ...]:
        used = (*self.conditions, *((self.floor,) if self.floor else ()))
        return tuple(g for c in used for g in c.given_value())


def columns(groups: tuple[Column, ...], measures: tuple[Measure, ...]) -> tuple[Column, ...]:
    """The columns of the deliverable with their tolerance: one unit of the last asked decimal."""
    return (*groups, *(_measured(m) for m in measures))


def _measured(m: Measure) -> Column:
    meaning = "number of rows" if m.column is None else f"{m.fn} of {m.column}"
    if m.decimals is None:
        return Column(name=m.name, type="integer" if m.fn.startswith("count") else "number", meaning=meaning)
    return Column(name=m.name, type="number", meaning=meaning, tolerance=float(f"1e-{m.decimals}"))


def contract(summary: Summary, guard: guards.Guards) -> Contract:
    """What must hold: format, rows, each measure, the order where one is asked, and the guards."""
    target = summary.deliverable
    answer = Answer(answer=summary.query())
    keys = [c.name for c in summary.groups]
    named = listing(c.name for c in target.columns)
    needs = [
        Requirement(
            id="format",
            statement=f"{target.path} is a {target.type} table with the columns {named}",
            deliverable=target.id, rule=FormatRule(), critical=True,
        ),
        Requirement(
            id="rows", statement=f"there is exactly one row for each {listing(keys)} that the request keeps",
            deliverable=target.id, rule=RowsRule(value=answer), critical=True, weight=2.0,
        ),
    ]  # fmt: skip
    needs += [
        Requirement(
            id=f"cells-{number}", statement=f"{m.name} is right in every row", deliverable=target.id,
            rule=CellsRule(column=m.name, value=answer), critical=True, weight=2.0,
        )
        for number, m in enumerate(summary.measures, 1)
    ]  # fmt: skip
    if summary.order:
        way = "descending" if summary.order.descending else "ascending"
        rule = OrderRule(column=summary.order.column, descending=summary.order.descending)
        statement = f"the rows are sorted by {summary.order.column}, {way}"
        needs.append(Requirement(id="order", statement=statement, role="constraint", deliverable=target.id, rule=rule))
    return Contract(
        givens=summary.givens(), deliverables=(target,), requirements=(*needs, *guard.requirements), same=guards.SAME
    )


# --- the request -----------------------------------------------------------------------------------------
def request(summary: Summary, rng: random.Random, *, gaps: bool = False) -> str:
    """The instruction, in one of many phrasings. `gaps`: a measured column has empty cells."""
    steps = [_base(summary, rng), *(_lookup(j, rng) for j in summary.lookups)]
    if summary.conditions:
        steps.append(_conditions(summary, rng))
    steps += [_groups(summary, rng), *(_measure(m, rng) for m in summary.measures)]
    if summary.floor:
        steps.append(_floor(summary.floor, rng))
    if summary.order:
        steps.append(_order(summary.order, rng))
    steps.append(_output(summary, rng))
    outro = [rng.choice(wording.GUARD)]
    if any(m.decimals is not None for m in summary.measures):
        outro.insert(0, rng.choice(wording.ROUNDING))
    if gaps:
        outro.insert(0, rng.choice(wording.GAPS))
    if summary.conditions:
        outro.insert(0, rng.choice(wording.EMPTY_CELLS))
    return wording.paragraphs(rng, rng.choice(wording.OPENINGS), steps, outro)


def _base(summary: Summary, rng: random.Random) -> str:
    where = place(summary.source)
    return rng.choice((f"Start from {where}.", f"The rows come from {where}.", f"Take the rows of {where}."))


def _lookup(j: Lookup, rng: random.Random) -> str:
    where, left, right = place(j.right), name(j.left_column), name(j.right_column)
    return rng.choice((
        f"Join {where} to it where {left} equals {right} there, and leave out rows without a partner.",
        f"Look up {left} in the column {right} of {where}, and leave out rows that are not found there.",
        f"Add the columns of {where} to each row by matching {left} with {right} there, dropping rows without a match.",
    ))  # fmt: skip


def _conditions(summary: Summary, rng: random.Random) -> str:
    text = " and ".join(c.words(rng) for c in summary.conditions)
    return rng.choice(
        (f"Keep only rows where {text}.", f"Only rows count where {text}.", f"Use only the rows in which {text}.")
    )


def _groups(summary: Summary, rng: random.Random) -> str:
    keys = listing(name(c.name) for c in summary.groups)
    each = f"each combination of {keys}" if len(summary.groups) > 1 else f"each {keys}"
    return rng.choice(
        (f"Make one row for {each}.", f"Group them by {keys}.", f"The result has one row for {each} that is left.")
    )


_WHAT = {
    "count": "the number of rows", "count_distinct": "the number of different values of {c}", "sum": "the sum of {c}",
    "mean": "the average of {c}", "min": "the smallest {c}", "max": "the largest {c}",
}  # fmt: skip


def _measure(m: Measure, rng: random.Random) -> str:
    what = _WHAT[m.fn].format(c=name(m.column or ""))
    if m.decimals is not None:
        places = f"{m.decimals} decimal{'s' if m.decimals != 1 else ''}"
        what = rng.choice((f"{what}, rounded to {places}", f"{what} to {places}"))
    return rng.choice(
        (f"The column {name(m.name)} is {what}.", f"In {name(m.name)} put {what}.", f"{name(m.name)} holds {what}.")
    )


def _floor(floor: Condition, rng: random.Random) -> str:
    text = floor.words(rng)
    return rng.choice((f"Of the result, keep only the rows where {text}.", f"In the end keep a group only if {text}."))


def _order(order: Order, rng: random.Random) -> str:
    column = name(order.column)
    if order.descending:
        return rng.choice(
            (f"Sort the result by {column}, largest first.", f"Order the result by {column} in descending order.")
        )
    return rng.choice(
        (f"Sort the result by {column}, smallest first.", f"Order the result by {column} in ascending order.")
    )


def _output(summary: Summary, rng: random.Random) -> str:
    target = summary.deliverable
    cols = listing(name(c.name) for c in target.columns)
    form = {
        "csv": "a CSV table",
        "tsv": "a tab-separated table",
        "json": "a JSON list of objects",
        "xlsx": "a workbook",
    }
    where = f"the sheet {name(target.sheet)} of {name(target.path)}" if target.sheet else name(target.path)
    kind = form[target.type]
    return rng.choice((
        f"Write the result to {where} as {kind} with the columns {cols}.",
        f"Save it as {kind} in {where}, with the columns {cols}.",
        f"Deliver {kind} in {where} that has the columns {cols}.",
    ))  # fmt: skip


def floor_given(column: str, value: float) -> Condition:
    """`column` of the result is at least `value`."""
    return Condition(column, "ge", value, given="smallest_kept", kind="number")


__all__ = ["Given", "Lookup", "Summary", "columns", "contract", "floor_given", "request"]
