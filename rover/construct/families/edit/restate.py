"""The request of an edit from its contract alone."""

from __future__ import annotations

from rover.construct.families.author import Author, Misfit, conditions
from rover.construct.families.edit import spec
from rover.construct.families.edit.spec import Edit, Membership
from rover_store.records import Contract, Query
from rover_store.records.contract import EditRule
from rover_store.records.query import Given


def request(contract: Contract, author: Author) -> str:
    """Misfit where the contract is no edit's."""
    edits = [n.rule for n in contract.requirements if isinstance(n.rule, EditRule)]
    if len(contract.deliverables) != 1 or len(edits) != 1 or not isinstance(edits[0].value, Given):
        raise Misfit("not one edit of one table")
    (target,), (rule,), name = contract.deliverables, edits, edits[0].value.given
    value = next((g.value for g in contract.givens if g.name == name), None)
    if value is None:
        raise Misfit("no new value")
    query = rule.rows.answer
    member = None
    if query.joins:
        (join, *more) = query.joins
        if more or not isinstance(join.right, Query) or len(join.on) != 1:
            raise Misfit("a join that an edit does not make")
        column, other = join.on[0]
        member = Membership(column, join.right.source, other, conditions(contract, join.right.filters))
    edit = Edit(target, target.key, conditions(contract, query.filters), member, rule.column, value)
    return spec.request(edit, author)
