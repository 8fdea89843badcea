"""A reconciliation as the builder means it: detail rows, recorded totals, what differs and how it is reported.

Gives the queries of the answers, the contract and the request. Solvers never see it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from rover.construct.families import guards, wording
from rover.construct.families.wording import Condition, listing, name, place
from rover_store.records import Contract, Deliverable, GivenValue, Query, Requirement, Source
from rover_store.records.contract import Answer, Column, FieldRule, FormatRule, RecordsRule
from rover_store.records.query import Derived, Filter, Given, Join, Measure, Order

TOLERANCE = "tolerance"
_GAP = "gap between recorded and computed"  # a column of the queries alone, never of a file


@dataclass(frozen=True, slots=True)
class Lookup:
    """The group of a detail row stands in another table, under a key that is unique there."""

    right: Source
    left_column: str
    right_column: str


@dataclass(frozen=True, slots=True)
class Fields:
    """Names in the findings file."""

    findings: str
    count: str
    checked: str
    largest: str
    computed: str
    difference: str


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Sums of `amount` over the detail rows of each group, against the column `recorded` of the totals."""

    details: Source
    lookup: Lookup | None
    conditions: tuple[Condition, ...]
    group: str
    group_type: Literal["text", "integer"]
    amount: str
    #: digits after the point of totals and differences; None where sums are whole as they are
    places: int | None
    totals: Source
    recorded: str
    tolerance: float
    fields: Fields
    path: str

    # --- answers -----------------------------------------------------------------------------------------
    def sums(self) -> Query:
        """The computed sum of each group."""
        group = (self.group,)
        joins: tuple[Join, ...] = ()
        if self.lookup:
            keep = tuple(dict.fromkeys((self.lookup.right_column, self.group)))
            right = Query(source=self.lookup.right, select=keep)
            joins = (Join(right=right, on=((self.lookup.left_column, self.lookup.right_column),)),)
        measure = Measure(name=self.fields.computed, fn="sum", column=self.amount, decimals=self.places)
        filters = tuple(c.filter() for c in self.conditions)
        return Query(source=self.details, joins=joins, filters=filters, group_by=group, measures=(measure,))

    def _compared(self, select: tuple[str, ...] = (), largest: bool = False, measure: str = "") -> Query:
        ways: tuple[tuple[str, Literal["sub", "abs_diff"]], ...]
        ways = ((self.fields.difference, "sub"), (_GAP, "abs_diff"))
        return Query(
            source=self.totals,
            joins=(Join(right=self.sums(), on=((self.group, self.group),)),),
            derived=tuple(
                Derived(name=n, op=op, left=self.recorded, right=self.fields.computed) for n, op in ways
            ),
            filters=(Filter(column=_GAP, op="gt", value=Given(given=TOLERANCE)),),
            measures=(Measure(name=measure, fn="count"),) if measure else (),
            order_by=(Order(column=_GAP, descending=True),) if largest else (),
            limit=1 if largest else None,
            select=select,
        )  # fmt: skip

    def findings(self) -> Query:
        return self._compared((self.group, self.recorded, self.fields.computed, self.fields.difference))

    def count(self) -> Query:
        return self._compared(measure=self.fields.count)

    def largest(self) -> Query:
        return self._compared((self.group,), largest=True)

    def checked(self) -> Query:
        return Query(source=self.totals, measures=(Measure(name=self.fields.checked, fn="count"),))

    def columns(self) -> tuple[Column, ...]:
        """The members of a finding."""
        slack = 0.0 if not self.places else float(f"5e-{self.places + 1}")
        kind: Literal["integer", "number"] = "number" if self.places else "integer"
        return (
            Column(name=self.group, type=self.group_type, meaning="group"),
            Column(name=self.recorded, type=kind, meaning="total as recorded", tolerance=slack),
            Column(name=self.fields.computed, type=kind, meaning=f"sum of {self.amount}", tolerance=slack),
            Column(name=self.fields.difference, type=kind, meaning="recorded minus computed", tolerance=slack),
        )


def contract(r: Reconciliation, guard: guards.Guards) -> Contract:
    """Format, the list of findings, the three figures about it, and the guards."""
    f = r.fields
    target = Deliverable(id="findings", path=r.path, type="json", columns=(
        Column(name=f.checked, type="integer", meaning="groups in the totals"),
        Column(name=f.count, type="integer", meaning="groups that differ"),
        Column(name=f.largest, type=r.group_type, meaning="group with the largest difference"),
    ))  # fmt: skip
    listed = RecordsRule(field=f.findings, key=(r.group,), columns=r.columns(), value=Answer(answer=r.findings()))
    needs = (
        Requirement(
            id="format", statement=f"{r.path} is a JSON object with the fields {listing(_fields(f))}",
            deliverable=target.id, rule=FormatRule(), critical=True,
        ),
        Requirement(
            id="findings", statement=f"{f.findings} lists exactly the groups that differ, each with its figures",
            deliverable=target.id, rule=listed, critical=True, weight=3.0,
        ),
        Requirement(
            id="count", statement=f"{f.count} is the number of groups that differ", deliverable=target.id,
            rule=FieldRule(field=f.count, value=Answer(answer=r.count())), weight=1.0,
        ),
        Requirement(
            id="checked", statement=f"{f.checked} is the number of groups in the totals", deliverable=target.id,
            rule=FieldRule(field=f.checked, value=Answer(answer=r.checked())), weight=0.5,
        ),
        Requirement(
            id="largest", statement=f"{f.largest} is the group with the largest difference", deliverable=target.id,
            rule=FieldRule(field=f.largest, value=Answer(answer=r.largest())), weight=1.0,
        ),
    )  # fmt: skip
    givens = [g for c in r.conditions for g in c.given_value()]
    givens.append(GivenValue(name=TOLERANCE, value=r.tolerance, meaning="largest difference that does not count"))
    return Contract(
        givens=tuple(givens), deliverables=(target,), requirements=(*needs, *guard.requirements), same=guards.SAME
    )


def _fields(f: Fields) -> tuple[str, ...]:
    return f.checked, f.count, f.largest, f.findings


# --- the request -----------------------------------------------------------------------------------------
OPENINGS = (
    "The books are being closed and the totals need a check.",
    "Somebody typed the totals by hand, so please check them.",
    "Before the report goes out, the totals have to be checked against the detail.",
)


def request(r: Reconciliation, rng: random.Random, *, gaps: bool) -> str:
    """The instruction, in one of many phrasings. `gaps`: some amounts are empty."""
    steps = [_details(r, rng)]
    if r.lookup:
        steps.append(_lookup(r.lookup, r.group, rng))
    if r.conditions:
        text = " and ".join(c.words(rng) for c in r.conditions)
        steps.append(rng.choice((f"Only detail rows count where {text}.", f"Use only the detail rows where {text}.")))
    steps += [_sum(r, rng), _totals(r, rng), _tolerance(r, rng), _output(r, rng), _members(r, rng)]
    steps += [_difference(r, rng), *_figures(r, rng)]
    outro = [rng.choice(wording.GUARD)]
    if r.places is not None:
        outro.insert(0, rng.choice(wording.ROUNDING))
    if gaps:
        outro.insert(0, rng.choice(wording.GAPS))
    if r.conditions:
        outro.insert(0, rng.choice(wording.EMPTY_CELLS))
    return wording.paragraphs(rng, rng.choice(OPENINGS), steps, outro)


def _details(r: Reconciliation, rng: random.Random) -> str:
    where = place(r.details)
    return rng.choice((
        f"The detail rows are in {where}.", f"Take the detail rows from {where}.",
        f"{where[0].upper()}{where[1:]} has the detail rows.",
    ))  # fmt: skip


def _lookup(j: Lookup, group: str, rng: random.Random) -> str:
    where, left, right = place(j.right), name(j.left_column), name(j.right_column)
    return rng.choice((
        f"The {name(group)} of a detail row stands in {where}, where {right} equals its {left}, and a row that is not "
        "found there is left out.",
        f"Look up the {name(group)} of each detail row in {where} by matching {left} with {right} there, leaving out "
        "rows without a match.",
    ))  # fmt: skip


def _sum(r: Reconciliation, rng: random.Random) -> str:
    amount, group = name(r.amount), name(r.group)
    places = "" if r.places is None else f", rounded to {r.places} decimal{'s' if r.places != 1 else ''}"
    return rng.choice((
        f"Add up {amount} for each {group}{places}.", f"For each {group}, compute the sum of {amount}{places}.",
        f"The computed sum of a {group} is the sum of {amount} over its detail rows{places}.",
    ))  # fmt: skip


def _totals(r: Reconciliation, rng: random.Random) -> str:
    where, group, recorded = place(r.totals), name(r.group), name(r.recorded)
    return rng.choice((
        f"Compare this with {where}, where {recorded} is the recorded total of each {group}.",
        f"The recorded totals are in the column {recorded} of {where}, one for each {group}.",
        f"Hold it against {where}, which has the recorded total of each {group} in {recorded}.",
    ))  # fmt: skip


def _tolerance(r: Reconciliation, rng: random.Random) -> str:
    group, limit = name(r.group), wording.number(r.tolerance)
    return rng.choice((
        f"A {group} differs if its recorded total and its computed sum are more than {limit} apart.",
        f"Differences of up to {limit} are accepted, and a {group} with a larger one differs.",
        f"Report a {group} only if its recorded total is off by more than {limit}.",
    ))  # fmt: skip


def _output(r: Reconciliation, rng: random.Random) -> str:
    names = [name(n) for n in _fields(r.fields)]
    rng.shuffle(names)
    path = name(r.path)
    return rng.choice((
        f"Write the findings to {path} as a JSON object with the fields {listing(names)}.",
        f"Save them in {path}, a JSON object that has the fields {listing(names)}.",
        f"The findings go to {path} as one JSON object with the fields {listing(names)}.",
    ))  # fmt: skip


def _members(r: Reconciliation, rng: random.Random) -> str:
    f, group = r.fields, name(r.group)
    members = listing(name(n) for n in (r.group, r.recorded, f.computed, f.difference))
    return rng.choice((
        f"{name(f.findings)} is a list of objects, one for each {group} that differs, with {members}.",
        f"In {name(f.findings)} put a list with one object for each {group} that differs, holding {members}.",
    ))  # fmt: skip


def _difference(r: Reconciliation, rng: random.Random) -> str:
    f = r.fields
    recorded, computed, difference = name(r.recorded), name(f.computed), name(f.difference)
    return rng.choice((
        f"There {computed} is the computed sum and {difference} is {recorded} minus {computed}.",
        f"In each object, {computed} holds the computed sum, and {difference} holds {recorded} minus {computed}.",
    ))  # fmt: skip


def _figures(r: Reconciliation, rng: random.Random) -> list[str]:
    f, group = r.fields, name(r.group)
    steps = [
        rng.choice((
            f"{name(f.checked)} is the number of recorded totals.",
            f"{name(f.checked)} says how many totals are recorded.",
        )),
        rng.choice((
            f"{name(f.count)} is how many of them differ.", f"{name(f.count)} is the number of totals that differ.",
        )),
        rng.choice((
            f"{name(f.largest)} is the {group} with the largest difference, whatever its sign.",
            f"{name(f.largest)} names the {group} whose difference is the largest, plus or minus.",
        )),
    ]  # fmt: skip
    rng.shuffle(steps)
    return steps
