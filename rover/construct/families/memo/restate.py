"""The request of a memo from its contract alone."""

from __future__ import annotations

from rover.construct.families import wording
from rover.construct.families.author import Author, Misfit, conditions
from rover.construct.families.memo import spec
from rover.construct.families.memo.spec import Figure, Fn, Memo, Partner
from rover_store.records import Contract, Query
from rover_store.records.contract import Answer, FigureRule
from rover_store.records.query import Measure

#: how the label of a date begins
_DATED = ("First", "Earliest", "Last", "Latest")


def request(contract: Contract, author: Author) -> str:
    """Misfit where the contract is no memo's."""
    if len(contract.deliverables) != 1:
        raise Misfit("not one memo")
    figures = [
        _figure(contract, need.id, need.rule, author)
        for need in contract.requirements
        if isinstance(need.rule, FigureRule)
    ]
    if not figures:
        raise Misfit("no figures")
    memo = Memo(contract.deliverables[0].path, tuple(figures))
    return spec.request(memo, author, gaps=author.says(wording.GAPS))


def _figure(contract: Contract, name: str, rule: FigureRule, author: Author) -> Figure:
    if not isinstance(rule.value, Answer) or len(rule.value.answer.measures) != 1:
        raise Misfit("a figure that no query gives")
    query = rule.value.answer
    (measure,) = query.measures
    partner = None
    if query.joins:
        (join, *more) = query.joins
        if more or not isinstance(join.right, Query) or len(join.on) != 1:
            raise Misfit("a join that a memo does not make")
        partner = Partner(join.right.source, *join.on[0], conditions(contract, join.right.filters))
    return Figure(
        id=name, label=rule.label, fn=_function(query, measure, rule.label, author), source=query.source,
        column=measure.column or "", group=query.group_by[0] if query.group_by else "", decimals=measure.decimals,
        conditions=conditions(contract, query.filters), partner=partner,
    )  # fmt: skip


def _function(query: Query, measure: Measure, label: str, author: Author) -> Fn:
    if query.group_by:
        return "most_rows" if measure.fn == "count" else "largest_sum"
    if measure.fn in ("min", "max") and measure.column:
        # dates and numbers are asked for in other words, and the contract does not say which a column holds
        dated: Fn = "earliest" if measure.fn == "min" else "latest"
        told = label.partition(" ")[0] in _DATED or author.says_of(measure.column, (f"the {dated}",))
        return dated if told else measure.fn
    return measure.fn
