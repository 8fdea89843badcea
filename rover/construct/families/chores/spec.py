"""Chores as the builder means them: the parts, the contract and the request. Solvers never see it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from rover.construct.families import guards
from rover.construct.families.wording import name
from rover_store.records import Contract, Deliverable, GivenValue, Query, Requirement, Source
from rover_store.records.contract import Answer, CellsRule, Column, EditRule, RestRule, RowsRule
from rover_store.records.query import Filter, Given, Join, Scalar

KEYS, VALUES, CELL, GUARDED = 1.0, 2.0, 2.0, 0.25


@dataclass(frozen=True, slots=True)
class Lookup:
    """Where a value stands: `value` of the row of `path` whose `key` is the row's own `key`."""

    path: str
    key: str
    value: str

    def join(self) -> Join:
        right = Query(source=Source(path=self.path), select=(self.key, self.value))
        return Join(right=right, on=((self.key, self.key),))


@dataclass(frozen=True, slots=True)
class Report:
    """Key and one value of the rows of a table that meet a condition, in a new table; the value may be looked up."""

    id: str
    path: str
    source: str
    condition: tuple[str, str]
    key: Column
    value: Column
    lookup: Lookup | None = None

    @property
    def given(self) -> str:
        return f"{self.id}_{self.condition[0]}"

    def query(self) -> Query:
        joins = (self.lookup.join(),) if self.lookup else ()
        kept = Filter(column=self.condition[0], op="eq", value=Given(given=self.given))
        source = Source(path=self.source)
        return Query(source=source, joins=joins, filters=(kept,), select=(self.key.name, self.value.name))


@dataclass(frozen=True, slots=True)
class Change:
    """One cell of the ledger: set to a value that is told, or that is looked up."""

    id: str
    key: tuple[str, int]
    column: str
    told: Scalar | None = None
    lookup: Lookup | None = None

    @property
    def given(self) -> str:
        return f"{self.id}_{self.key[0]}"

    def rows(self, ledger: str) -> Query:
        return Query(source=Source(path=ledger), filters=(self._kept(),), select=(self.key[0],))

    def value(self, ledger: str) -> Query:
        assert self.lookup
        source, joins = Source(path=ledger), (self.lookup.join(),)
        return Query(source=source, joins=joins, filters=(self._kept(),), select=(self.lookup.value,))

    def _kept(self) -> Filter:
        return Filter(column=self.key[0], op="eq", value=Given(given=self.given))


Part = Report | Change


@dataclass(frozen=True, slots=True)
class Chore:
    """All parts in the order of the request. `ledger`: its path and columns, where a part changes it."""

    parts: tuple[Part, ...]
    ledger: str = ""
    ledger_columns: tuple[Column, ...] = ()
    strict: bool = False

    def reports(self) -> tuple[Report, ...]:
        return tuple(p for p in self.parts if isinstance(p, Report))

    def changes(self) -> tuple[Change, ...]:
        return tuple(p for p in self.parts if isinstance(p, Change))


def contract(chore: Chore, guard: guards.Guards) -> Contract:
    """What must hold: each report's keys and values, each cell, the rest of the ledger, and the guards."""
    targets: list[Deliverable] = []
    needs: list[Requirement] = []
    givens: list[GivenValue] = []
    for part in chore.parts:
        if isinstance(part, Report):
            columns = (part.key, part.value)
            targets.append(Deliverable(id=part.id, path=part.path, type="csv", columns=columns, key=(part.key.name,)))
            needs += _of_report(part, chore.strict)
            givens.append(_given(part.given, part.condition[1], part.condition[0]))
        else:
            needs.append(_of_change(part, chore.ledger))
            givens.append(_given(part.given, part.key[1], part.key[0]))
            if part.told is not None:
                givens.append(GivenValue(name=f"{part.id}_value", value=part.told, meaning=f"goes into {part.column}"))
    if chore.changes():
        key = chore.changes()[0].key[0]
        targets.append(
            Deliverable(
                id="ledger", path=chore.ledger, type="csv", columns=chore.ledger_columns, key=(key,), in_place=True
            )
        )
        needs.append(
            Requirement(
                id="rest", statement=f"every other cell of {chore.ledger} is as it was", role="invariant",
                deliverable="ledger", rule=RestRule(), weight=GUARDED,
            )
        )  # fmt: skip
    needs += [need.model_copy(update={"weight": GUARDED}) for need in guard.requirements]
    return Contract(
        givens=tuple(givens), deliverables=tuple(targets), requirements=tuple(needs), same=guards.SAME
    )


def _of_report(r: Report, critical: bool) -> list[Requirement]:
    answer = Answer(answer=r.query())
    column, value = r.condition
    return [
        Requirement(
            id=f"{r.id}-keys", statement=f"{r.path} has exactly the rows of {r.source} where {column} is {value}",
            deliverable=r.id, rule=RowsRule(value=answer), critical=critical, weight=KEYS,
        ),
        Requirement(
            id=f"{r.id}-values", statement=f"{r.value.name} is right in each row of {r.path}",
            deliverable=r.id, rule=CellsRule(column=r.value.name, value=answer), critical=critical, weight=VALUES,
        ),
    ]  # fmt: skip


def _of_change(c: Change, ledger: str) -> Requirement:
    value = Answer(answer=c.value(ledger)) if c.lookup else Given(given=f"{c.id}_value")
    rows = Answer(answer=c.rows(ledger))
    return Requirement(
        id=c.id, statement=f"{c.column} of the row {c.key[1]} of {ledger} holds the value asked for",
        deliverable="ledger", rule=EditRule(column=c.column, rows=rows, value=value), weight=CELL,
    )  # fmt: skip


def _given(name_: str, value: Scalar, column: str) -> GivenValue:
    return GivenValue(name=name_, value=value, meaning=f"compared with {column}")


def anchors(chore: Chore) -> dict[str, tuple[str, ...]]:
    """Requirement id -> anchor ids, in the order of the rule's answers."""
    out: dict[str, tuple[str, ...]] = {}
    for part in chore.parts:
        if isinstance(part, Report):
            out |= {f"{part.id}-keys": (part.id,), f"{part.id}-values": (part.id,)}
        else:
            out[part.id] = (f"{part.id}-row",) + ((f"{part.id}-value",) if part.lookup else ())
    return out


# --- the request -----------------------------------------------------------------------------------------
GUARD = ("Change nothing else.", "Leave all else as it is.")


def request(chore: Chore, rng: random.Random) -> str:
    """The instruction: one sentence a part, in one of two phrasings, and the guard."""
    said = [_report(p, rng) if isinstance(p, Report) else _change(p, chore.ledger, rng) for p in chore.parts]
    return " ".join((*said, rng.choice(GUARD))) + "\n"


def _report(r: Report, rng: random.Random) -> str:
    column, value = r.condition
    rows = f'the rows of {name(r.source)} where {name(column)} is "{value}"'
    key, path = name(r.key.name), name(r.path)
    if r.lookup is None:
        what = f"{key} and {name(r.value.name)}"
        return rng.choice((f"Copy {what} of {rows} to {path}.", f"Put {what} of {rows} into {path}."))
    what = f"{key} and the {name(r.lookup.value)} of its {name(r.lookup.key)} in {name(r.lookup.path)}"
    return rng.choice((f"For {rows} write {what} to {path}.", f"From {rows} list {what} in {path}."))


def _change(c: Change, ledger: str, rng: random.Random) -> str:
    where = f"where {name(c.key[0])} is {c.key[1]}"
    if c.lookup is None:
        to = str(c.told) if isinstance(c.told, int | float) else f'"{c.told}"'
    else:
        to = f"the {name(c.lookup.value)} of its {name(c.lookup.key)} in {name(c.lookup.path)}"
    return rng.choice((
        f"Set {name(c.column)} in {name(ledger)} {where} to {to}.",
        f"In {name(ledger)} set {name(c.column)} {where} to {to}.",
    ))  # fmt: skip


def letters(parts: Sequence[Part]) -> str:
    """Kinds of parts: R report, L look-up report, E edit, V edit with a look-up."""
    return "".join(
        ("L" if p.lookup else "R") if isinstance(p, Report) else ("V" if p.lookup else "E") for p in parts
    )
