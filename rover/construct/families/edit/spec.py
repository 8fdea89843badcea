"""An edit as the builder means it: which rows of which table get which value in which column.

Gives the query of the rows, the contract and the request. Solvers never see it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from rover.construct.families import guards, wording
from rover.construct.families.wording import Condition, name, place
from rover_store.records import Contract, Deliverable, GivenValue, Query, Requirement, Source
from rover_store.records.contract import Answer, EditRule, FormatRule, RestRule
from rover_store.records.query import Given, Join, Scalar


@dataclass(frozen=True, slots=True)
class Membership:
    """The row's `column` has to stand in the key `other_column` of another table, among rows that meet conditions."""

    column: str
    other: Source
    other_column: str
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Edit:
    target: Deliverable
    key: tuple[str, ...]
    conditions: tuple[Condition, ...]
    membership: Membership | None
    column: str
    value: Scalar

    @property
    def source(self) -> Source:
        return Source(path=self.target.path, sheet=self.target.sheet)

    def query(self) -> Query:
        """The keys of the rows to change, from the start state."""
        joins: tuple[Join, ...] = ()
        if self.membership:
            m = self.membership
            right = Query(source=m.other, filters=tuple(c.filter() for c in m.conditions), select=(m.other_column,))
            joins = (Join(right=right, on=((m.column, m.other_column),)),)
        return Query(
            source=self.source, joins=joins, filters=tuple(c.filter() for c in self.conditions), select=self.key
        )

    def givens(self) -> tuple[GivenValue, ...]:
        others = self.membership.conditions if self.membership else ()
        code = GivenValue(name="new_value", value=self.value, meaning=f"goes into {self.column}")
        return (*(g for c in (*self.conditions, *others) for g in c.given_value()), code)


def contract(edit: Edit, guard: guards.Guards) -> Contract:
    """What must hold: the file still reads, the right rows changed, nothing else did, and the guards."""
    target = edit.target
    needs = (
        Requirement(
            id="format", statement=f"{target.path} is still a {target.type} table with its columns",
            deliverable=target.id, rule=FormatRule(), critical=True,
        ),
        Requirement(
            id="edit", statement=f"{edit.column} holds the new value in exactly the rows that the request describes",
            deliverable=target.id, critical=True, weight=4.0,
            rule=EditRule(column=edit.column, rows=Answer(answer=edit.query()), value=Given(given="new_value")),
        ),
        Requirement(
            id="rest", statement=f"every other cell of {target.path} is as it was", role="invariant",
            deliverable=target.id, rule=RestRule(), critical=True, weight=2.0,
        ),
    )  # fmt: skip
    return Contract(
        givens=edit.givens(), deliverables=(target,), requirements=(*needs, *guard.requirements), same=guards.SAME
    )


# --- the request -----------------------------------------------------------------------------------------
def request(edit: Edit, rng: random.Random) -> str:
    """The instruction, in one of many phrasings."""
    steps = [_target(edit, rng)]
    if edit.conditions:
        steps.append(_conditions(edit.conditions, rng))
    if edit.membership:
        steps.append(_membership(edit.membership, rng))
    steps.append(_change(edit, rng))
    outro = [rng.choice(wording.EMPTY_CELLS), rng.choice(REST), rng.choice(wording.GUARD)]
    return wording.paragraphs(rng, rng.choice(wording.OPENINGS), steps, outro)


REST = (
    "All other cells of that table, its columns and the order of its rows stay as they are.",
    "Nothing else in that table may change, neither cells nor columns nor the order of rows.",
)


def _target(edit: Edit, rng: random.Random) -> str:
    where = place(edit.source)
    return rng.choice(
        (f"Edit {where} in place.", f"The table to edit in place is {where}.", f"Work directly in {where}.")
    )


def _conditions(conditions: tuple[Condition, ...], rng: random.Random) -> str:
    text = " and ".join(c.words(rng) for c in conditions)
    return rng.choice(
        (f"Pick the rows where {text}.", f"It concerns the rows in which {text}.", f"Find the rows where {text}.")
    )


def _membership(m: Membership, rng: random.Random) -> str:
    column, other, where = name(m.column), name(m.other_column), place(m.other)
    text = " and ".join(c.words(rng) for c in m.conditions)
    among = f", among the rows there where {text}" if text else ""
    return rng.choice((
        f"Take a row only if its {column} stands in the column {other} of {where}{among}.",
        f"A row counts only if its {column} is found in the column {other} of {where}{among}.",
    ))  # fmt: skip


def _change(edit: Edit, rng: random.Random) -> str:
    kind = "number" if isinstance(edit.value, int | float) else "text"
    column, new = name(edit.column), wording.value(edit.value, kind)
    return rng.choice(
        (
            f"Set {column} to {new} in these rows.",
            f"In these rows put {new} into {column}.",
            f"These rows get {new} in the column {column}.",
        )
    )
