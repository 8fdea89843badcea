"""The request of a reconciliation from its contract alone."""

from __future__ import annotations

from rover.construct.families import wording
from rover.construct.families.author import Author, Misfit, conditions
from rover.construct.families.reconcile import spec
from rover.construct.families.reconcile.spec import TOLERANCE, Fields, Lookup, Reconciliation
from rover_store.records import Contract, Query, Requirement
from rover_store.records.contract import FieldRule, RecordsRule


def request(contract: Contract, author: Author) -> str:
    """Misfit where the contract is no reconciliation's."""
    needs = {need.id: need for need in contract.requirements}
    listed = needs["findings"].rule if "findings" in needs else None
    limit = next((g.value for g in contract.givens if g.name == TOLERANCE), None)
    if not isinstance(listed, RecordsRule) or not isinstance(limit, int | float) or len(listed.columns) != 4:
        raise Misfit("no list of findings")
    compared = listed.value.answer
    if len(compared.joins) != 1 or not isinstance(compared.joins[0].right, Query):
        raise Misfit("no totals compared with sums")
    sums = compared.joins[0].right
    group, recorded, computed, difference = listed.columns
    if len(sums.measures) != 1 or not sums.measures[0].column:
        raise Misfit("not one sum for each group")
    lookup = None
    if sums.joins:
        right = sums.joins[0].right
        lookup = Lookup(right.source if isinstance(right, Query) else right, *sums.joins[0].on[0])
    fields = Fields(
        findings=listed.field, count=_field(needs, "count"), checked=_field(needs, "checked"),
        largest=_field(needs, "largest"), computed=computed.name, difference=difference.name,
    )  # fmt: skip
    found = Reconciliation(
        details=sums.source, lookup=lookup, conditions=conditions(contract, sums.filters), group=group.name,
        group_type="integer" if group.type == "integer" else "text", amount=sums.measures[0].column,
        places=sums.measures[0].decimals, totals=compared.source, recorded=recorded.name, tolerance=limit,
        fields=fields, path=contract.deliverables[0].path,
    )  # fmt: skip
    return spec.request(found, author, gaps=author.says(wording.GAPS))


def _field(needs: dict[str, Requirement], name: str) -> str:
    rule = needs[name].rule if name in needs else None
    if not isinstance(rule, FieldRule):
        raise Misfit(f"no field for {name}")
    return rule.field
