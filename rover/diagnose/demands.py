"""What a contract demands, read as facts: the answers it asks for, their sources, the values it must state.

Pure functions of the records; nothing of the verifier or a reference is read here.
"""

from __future__ import annotations

import re
from calendar import month_name
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from rover_store.records import Contract, Deliverable, Given, GivenValue, Query, Requirement, Source, Table
from rover_store.records.contract import (
    Answer,
    CellsRule,
    EditRule,
    RecordsRule,
    RowsRule,
    SetRule,
)
from rover_store.records.query import Derived, Filter

_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Asked:
    """One answer of the contract: `id` is the requirement's, with its number where a rule holds several."""

    id: str
    requirement: Requirement
    query: Query
    #: columns of the result that only say which row is meant; None: all of them
    keys: tuple[str, ...] | None
    #: columns that hold what is asked for; None: all that are no keys
    values: tuple[str, ...] | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(sorted({source.path for source in sources(self.query)}))


def asked(contract: Contract) -> tuple[Asked, ...]:
    """Every answer the contract asks for, in its order."""
    by_id = {d.id: d for d in contract.deliverables}
    out: list[Asked] = []
    for requirement in contract.requirements:
        answers = list(_answers(requirement.rule))
        for number, answer in enumerate(answers):
            name = requirement.id if len(answers) == 1 else f"{requirement.id}#{number}"
            deliverable = by_id.get(requirement.deliverable or "")
            keys = _keys(requirement, answer, deliverable)
            rule = requirement.rule
            out.append(
                Asked(name, requirement, answer.answer, keys, (rule.column,) if isinstance(rule, CellsRule) else None)
            )
    return tuple(out)


def sources(query: Query) -> tuple[Source, ...]:
    """Every table that a query reads, nested ones too."""
    return tuple(found for found in parts(query) if isinstance(found, Source))


def contract_sources(contract: Contract) -> tuple[str, ...]:
    """Paths of all files that some answer is derived from."""
    return tuple(sorted({source.path for a in asked(contract) for source in sources(a.query)}))


def sources_named(contract: Contract) -> set[str]:
    """Names of columns, fields and labels that the contract uses: words that a request may hold in backticks."""
    named = ("column", "field", "label", "name", "left")
    return {str(value) for part in parts(contract) for n in named if (value := getattr(part, n, None))}


def givens_used(contract: Contract) -> tuple[str, ...]:
    """Names of the given values that some rule refers to."""
    names = {found.given for r in contract.requirements for found in parts(r.rule) if isinstance(found, Given)}
    return tuple(sorted(names))


def keyed(table: Table, one: Asked) -> tuple[Table, int]:
    """The table with its key columns in front, then what is asked for; and how many the keys are."""
    if one.keys is None:
        return table, len(table.columns)
    front = [c for c in table.columns if c in one.keys]
    rest = [c for c in table.columns if c not in one.keys]
    asked_for = [c for c in rest if one.values is None or c in one.values] or rest
    order = [table.columns.index(c) for c in (*front, *asked_for)]
    rows = tuple(tuple(row[i] for i in order) for row in table.rows)
    return Table(columns=tuple(table.columns[i] for i in order), rows=rows), len(front)


def states(text: str, value: Any) -> bool:
    """Whether a text states a value: as a whole word, whatever its case; numbers in any usual spelling."""
    if isinstance(value, bool):
        return str(value).lower() in text.lower()
    if isinstance(value, int | float):
        return _states_number(text, float(value))
    word = _SPACE.sub(" ", str(value)).strip().lower()
    body = _SPACE.sub(" ", text).lower()
    return any(
        re.search(rf"(?<!\w){re.escape(s)}(?!\w)" if s[:1].isalnum() else re.escape(s), body)
        for s in (word, *_spellings_of_date(word))
    )


def compared_with(contract: Contract, name: str) -> tuple[tuple[str, str], ...]:
    """Columns and operators that a given value is used with: ("amount", "gt")."""
    pairs = [
        (f.column, f.op)
        for r in contract.requirements
        for f in parts(r.rule)
        if isinstance(f, Filter) and f.value is not None and f.value.given == name
    ]
    return tuple(dict.fromkeys(pairs))


def columns_of(contract: Contract, name: str) -> tuple[str, ...]:
    """Columns beside which a request states a given value: it is compared with them, or written into them."""
    derived = {q.name for r in contract.requirements for q in parts(r.rule) if isinstance(q, Derived)}
    compared = [c for c, _ in compared_with(contract, name) if c not in derived]
    edited = [
        r.rule.column
        for r in contract.requirements
        if isinstance(r.rule, EditRule) and isinstance(r.rule.value, Given) and r.rule.value.given == name
    ]
    return tuple(dict.fromkeys([*compared, *edited]))


def states_given(text: str, contract: Contract, given: GivenValue) -> bool:
    """Whether a request states a given value: beside a column it is compared with, where the text names one.

    A number that stands elsewhere (a list's numbering, another condition) does not state it.
    """
    columns = columns_of(contract, given.name)
    lines = [re.sub(r"^\s*(?:[-*]|\d+[.)])\s+", "", line) for line in text.splitlines()]
    clauses = [clause for line in lines for clause in re.split(r"(?<=[.;:])\s+", line)]
    near = [c for c in clauses if any(states(c, column) for column in columns)]
    for column in columns:  # the column's own name does not state a value that it happens to hold
        near = [c.replace(f"`{column}`", " ") for c in near]
    return any(states(c, given.value) for c in (near or clauses))


def _states_number(text: str, value: float) -> bool:
    for spelling, percent in re.findall(r"(?<![\w.])([-+]?\d[\d,]*(?:\.\d+)?)(?![\w])(\s?(?:%|per ?cent)?)", text):
        plain = spelling.rstrip(",").replace(",", "")
        if plain and (float(plain) == value or (percent.strip() and float(plain) == value * 100)):
            return True
    return False


def _spellings_of_date(word: str) -> tuple[str, ...]:
    found = re.fullmatch(r"(\d{4})-(\d{2})-(\d{2})", word)
    if found is None:
        return ()
    year, month, day = found.groups()
    if not 1 <= int(month) <= 12:
        return ()
    name, number = month_name[int(month)].lower(), str(int(day))
    return (f"{number} {name} {year}", f"{name} {number}, {year}", f"{name} {number} {year}", f"{day}.{month}.{year}")


def _keys(requirement: Requirement, answer: Answer, deliverable: Deliverable | None) -> tuple[str, ...] | None:
    rule = requirement.rule
    columns = result_columns(answer.answer)
    if isinstance(rule, RowsRule | SetRule):
        return None
    if isinstance(rule, EditRule):
        return None if answer is rule.rows else ()
    if isinstance(rule, RecordsRule):
        return rule.key
    if isinstance(rule, CellsRule):
        names = deliverable.key if deliverable else ()
        found = tuple(c for c in columns if c in names)
        return found or tuple(c for c in columns if c != rule.column)
    return ()


def result_columns(query: Query) -> tuple[str, ...]:
    """Columns of a query's result, as far as the query itself names them."""
    if query.measures:
        return (*query.group_by, *(m.name for m in query.measures))
    return query.select


def _answers(rule: Any) -> Iterator[Answer]:
    if isinstance(rule, EditRule):
        yield rule.rows
        if isinstance(rule.value, Answer):
            yield rule.value
    elif hasattr(rule, "value") and isinstance(rule.value, Answer):
        yield rule.value


def parts(value: Any) -> Iterator[BaseModel]:
    """Every record inside a record."""
    if isinstance(value, BaseModel):
        yield value
        for name in type(value).model_fields:
            yield from parts(getattr(value, name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from parts(item)
