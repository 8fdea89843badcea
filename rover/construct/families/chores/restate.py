"""The request of chores from their contract alone."""

from __future__ import annotations

from rover.construct.families.author import Author, Misfit
from rover.construct.families.chores import spec
from rover.construct.families.chores.spec import Change, Chore, Lookup, Part, Report
from rover_store.records import Contract, Query, Requirement
from rover_store.records.contract import Answer, CellsRule, Column, EditRule, RowsRule
from rover_store.records.query import Filter, Given


def request(contract: Contract, author: Author) -> str:
    """Misfit where the contract is no chores'."""
    parts = tuple(p for need in contract.requirements if (p := _part(contract, need)))
    if not parts or sum(isinstance(n.rule, RowsRule) for n in contract.requirements) != sum(
        isinstance(p, Report) for p in parts
    ):
        raise Misfit("no chores")
    ledger = next((d.path for d in contract.deliverables if d.in_place), "")
    ordered = sorted(parts, key=lambda p: _place(p, ledger, author.text))
    return spec.request(Chore(tuple(ordered), ledger), author)


def _part(contract: Contract, need: Requirement) -> Part | None:
    if isinstance(need.rule, CellsRule):
        return _report(contract, need, need.rule)
    if isinstance(need.rule, EditRule):
        return _change(contract, need, need.rule)
    return None


def _report(contract: Contract, need: Requirement, rule: CellsRule) -> Report:
    target = next((d for d in contract.deliverables if d.id == need.deliverable), None)
    query = rule.value.answer
    if target is None or len(target.columns) != 2 or len(query.filters) != 1:
        raise Misfit("no report of two columns")
    kept = query.filters[0]
    key, value = target.columns
    where = kept.column, str(_told(contract, kept))
    return Report(target.id, target.path, query.source.path, where, key, value, _lookup(query, value))


def _change(contract: Contract, need: Requirement, rule: EditRule) -> Change:
    rows = rule.rows.answer
    if len(rows.filters) != 1:
        raise Misfit("an edit of more than one cell")
    row = _told(contract, rows.filters[0])
    if not isinstance(row, int):
        raise Misfit("a row without a number")
    where = rows.filters[0].column, row
    if isinstance(rule.value, Answer):
        return Change(need.id, where, rule.column, lookup=_lookup(rule.value.answer, None))
    return Change(need.id, where, rule.column, told=_given(contract, rule.value))


def _lookup(query: Query, value: Column | None) -> Lookup | None:
    if not query.joins:
        return None
    (join, *more) = query.joins
    right = join.right
    if more or not isinstance(right, Query) or len(right.select) != 2:
        raise Misfit("a join that chores do not make")
    return Lookup(right.source.path, right.select[0], value.name if value else right.select[1])


def _told(contract: Contract, kept: Filter) -> object:
    if kept.op != "eq" or kept.value is None:
        raise Misfit("a condition that chores do not have")
    return _given(contract, kept.value)


def _given(contract: Contract, asked: Given) -> str | int | float | bool:
    found = next((g.value for g in contract.givens if g.name == asked.given), None)
    if found is None:
        raise Misfit(f"no value {asked.given}")
    return found


def _place(part: Part, ledger: str, text: str) -> int:
    """Where the request speaks of a part."""
    mark = f"`{part.path}`" if isinstance(part, Report) else f"`{part.column}`"
    at = text.find(mark)
    return at if at >= 0 else len(text)
