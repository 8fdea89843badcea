"""The request of a summary from its contract alone."""

from __future__ import annotations

from rover.construct.families import wording
from rover.construct.families.author import Author, Misfit, condition, conditions
from rover.construct.families.summarise import spec
from rover.construct.families.summarise.spec import Lookup, Summary
from rover_store.records import Contract, Source
from rover_store.records.contract import OrderRule, RowsRule
from rover_store.records.query import Order


def request(contract: Contract, author: Author) -> str:
    """Misfit where the contract is no summary's."""
    rows = [n.rule for n in contract.requirements if isinstance(n.rule, RowsRule)]
    if len(contract.deliverables) != 1 or len(rows) != 1:
        raise Misfit("not one table with one set of rows")
    target, query = contract.deliverables[0], rows[0].value.answer
    lookups = []
    for join in query.joins:
        if not isinstance(join.right, Source) or len(join.on) != 1:
            raise Misfit("a join that a summary does not make")
        lookups.append(Lookup(join.right, *join.on[0]))
    order = next((n.rule for n in contract.requirements if isinstance(n.rule, OrderRule)), None)
    summary = Summary(
        source=query.source,
        lookups=tuple(lookups),
        conditions=conditions(contract, query.filters),
        groups=tuple(c for c in target.columns if c.name in target.key),
        measures=query.measures,
        floor=condition(contract, query.having[0]) if query.having else None,
        order=Order(column=order.column, descending=order.descending) if order else None,
        deliverable=target,
    )
    if not summary.groups or not summary.measures:
        raise Misfit("no groups or nothing measured")
    return spec.request(summary, author, gaps=author.says(wording.GAPS))
