"""A memo as the builder means it: figures with their labels, and the files that they come from.

Gives the queries of the answers, the contract and the request. Solvers never see it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from rover.construct.families import guards, wording
from rover.construct.families.wording import Condition, listing, name, place
from rover_store.records import Contract, Deliverable, Query, Requirement, Source
from rover_store.records.contract import Answer, CiteRule, FigureRule, FormatRule
from rover_store.records.query import Join, Measure, Order

Fn = Literal["count", "count_distinct", "sum", "mean", "min", "max", "earliest", "latest", "most_rows", "largest_sum"]


@dataclass(frozen=True, slots=True)
class Partner:
    """Only rows count whose `left` is a key of the right table, among its rows that meet the conditions."""

    right: Source
    left_column: str
    right_column: str
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: a label, and what stands beside it."""

    id: str
    label: str
    fn: Fn
    source: Source
    column: str = ""
    #: of the two that name a group: the column whose value is asked for
    group: str = ""
    decimals: int | None = None
    conditions: tuple[Condition, ...] = ()
    partner: Partner | None = None

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.source, *((self.partner.right,) if self.partner else ()))

    def every_condition(self) -> tuple[Condition, ...]:
        return (*self.conditions, *(self.partner.conditions if self.partner else ()))

    def query(self) -> Query:
        """The figure's value: one row, one column."""
        joins: tuple[Join, ...] = ()
        if self.partner:
            p = self.partner
            tests = tuple(c.filter() for c in p.conditions)
            right = Query(source=p.right, filters=tests, select=(p.right_column,))
            joins = (Join(right=right, on=((p.left_column, p.right_column),)),)
        grouped = self.fn in ("most_rows", "largest_sum")
        return Query(
            source=self.source, joins=joins, filters=tuple(c.filter() for c in self.conditions),
            group_by=(self.group,) if grouped else (), measures=(self._measure(),),
            order_by=(Order(column=self.id, descending=True),) if grouped else (), limit=1 if grouped else None,
            select=(self.group,) if grouped else (),
        )  # fmt: skip

    def _measure(self) -> Measure:
        if self.fn in ("count", "most_rows"):
            return Measure(name=self.id, fn="count")
        fn: dict[str, Literal["count_distinct", "sum", "mean", "min", "max"]] = {
            "earliest": "min", "latest": "max", "largest_sum": "sum", "count_distinct": "count_distinct", "sum": "sum",
            "mean": "mean", "min": "min", "max": "max",
        }  # fmt: skip
        return Measure(name=self.id, fn=fn[self.fn], column=self.column, decimals=self.decimals)

    @property
    def tolerance(self) -> float:
        """Half of the last decimal asked for: what rounding itself may cost."""
        return 0.0 if not self.decimals else float(f"5e-{self.decimals + 1}")


@dataclass(frozen=True, slots=True)
class Memo:
    path: str
    figures: tuple[Figure, ...]

    def cited(self) -> tuple[str, ...]:
        return tuple(sorted({s.path for f in self.figures for s in f.sources}))


def contract(memo: Memo, guard: guards.Guards) -> Contract:
    """Format, each figure beside its label, the sources, and the guards."""
    target = Deliverable(id="memo", path=memo.path, type="markdown")
    needs = [
        Requirement(
            id="format", statement=f"{memo.path} is a text in Markdown", deliverable=target.id, rule=FormatRule(),
            critical=True,
        )
    ]  # fmt: skip
    needs += [
        Requirement(
            id=figure.id, statement=f"the memo states {figure.label}", deliverable=target.id, critical=True, weight=2.0,
            rule=FigureRule(label=figure.label, value=Answer(answer=figure.query()), tolerance=figure.tolerance),
        )
        for figure in memo.figures
    ]  # fmt: skip
    needs.append(
        Requirement(
            id="sources", statement=f"the memo names its sources: {listing(memo.cited())}", deliverable=target.id,
            rule=CiteRule(paths=memo.cited()), weight=1.0,
        )
    )  # fmt: skip
    givens = tuple(g for f in memo.figures for c in f.every_condition() for g in c.given_value())
    return Contract(
        givens=givens, deliverables=(target,), requirements=(*needs, *guard.requirements), same=guards.SAME
    )


# --- the request -----------------------------------------------------------------------------------------
OPENINGS = (
    "The board meets soon and wants a short memo.",
    "Please prepare a memo with a few figures.",
    "A short memo is needed for the file.",
)
_WHAT: dict[Fn, str] = {
    "count": "the number of rows of {p}", "count_distinct": "the number of different values of {c} in {p}",
    "sum": "the sum of {c} in {p}", "mean": "the average of {c} in {p}", "min": "the smallest {c} in {p}",
    "max": "the largest {c} in {p}", "earliest": "the earliest {c} in {p}", "latest": "the latest {c} in {p}",
    "most_rows": "the {g} with the most rows in {p}", "largest_sum": "the {g} with the largest sum of {c} in {p}",
}  # fmt: skip


def request(memo: Memo, rng: random.Random, *, gaps: bool) -> str:
    """The instruction, in one of many phrasings. `gaps`: a column of figures has empty cells."""
    path = name(memo.path)
    steps = [
        rng.choice((
            f"Write the memo in Markdown to {path}.", f"The memo goes to {path}, in Markdown.",
            f"Put the memo into {path} as Markdown text.",
        )),
        *(_figure(f, rng) for f in memo.figures),
        rng.choice((
            "Each figure stands in one line with its label, the label as it is written here.",
            "Keep every label as it is written here, in one line with its figure.",
        )),
        rng.choice((
            "Name the files that the figures come from, by their paths.",
            "Say at the end which files the figures come from, by their paths.",
            "List the source files of the figures with their paths.",
        )),
    ]  # fmt: skip
    outro = [rng.choice(wording.GUARD)]
    if any(f.decimals is not None for f in memo.figures):
        outro.insert(0, rng.choice(wording.ROUNDING))
    if gaps:
        outro.insert(0, rng.choice(wording.GAPS))
    if any(f.every_condition() for f in memo.figures):
        outro.insert(0, rng.choice(wording.EMPTY_CELLS))
    return wording.paragraphs(rng, rng.choice(OPENINGS), steps, outro)


def _figure(f: Figure, rng: random.Random) -> str:
    what = _WHAT[f.fn].format(c=name(f.column), g=name(f.group), p=place(f.source))
    if f.decimals is not None:
        what += f", rounded to {f.decimals} decimal{'s' if f.decimals != 1 else ''}"
    if f.conditions:
        what += f", counting only rows where {_all(f.conditions, rng)}"
    if f.partner:
        p = f.partner
        what += f", {'and of these only' if f.conditions else 'counting only'} rows whose {name(p.left_column)} is "
        what += f"found in the column {name(p.right_column)} of {place(p.right)}"
        if p.conditions:
            what += f" among the rows there where {_all(p.conditions, rng)}"
    return rng.choice((
        f'State "{f.label}", {what}.', f'Under "{f.label}" give {what}.', f'The figure "{f.label}" is {what}.',
    ))  # fmt: skip


def _all(tests: tuple[Condition, ...], rng: random.Random) -> str:
    return " and ".join(c.words(rng) for c in tests)
