"""The check file of a reconciliation, as a person would write it."""

from __future__ import annotations

from rover.construct.families.guards import Guards
from rover.construct.families.reconcile.spec import Reconciliation
from rover_store.records import Contract
from rover_store.records.contract import FieldRule


def source(r: Reconciliation, contract: Contract, guard: Guards) -> str:
    """checks/main.py. Each answer's anchor has the name of its requirement."""
    target, columns, f = contract.deliverables[0], r.columns(), r.fields
    kinds = {c.name: c.type for c in columns}
    slack = {c.name: c.tolerance for c in columns if c.tolerance}
    fields = [f.checked, f.count, f.largest, f.findings]
    types = {c.name: c.type for c in target.columns}
    out = [
        f'"""Checks of {target.path}: one function for each requirement."""\n\n'
        "import rover_checks as rc\n\n"
        f"PATH = {target.path!r}\nKINDS = {kinds!r}\nTOLERANCES = {slack!r}\n",
        "def found(ev):\n    return rc.json_object(ev.end(PATH))\n",
        f"def format(ev):\n    return rc.has_fields(found(ev), {fields!r})\n",
        "def findings(ev):\n"
        "    return rc.records_match(\n"
        f"        found(ev), {f.findings!r}, ev.anchor('findings'), [{r.group!r}], {[c.name for c in columns]!r},\n"
        "        tolerances=TOLERANCES, kind=KINDS,\n"
        "    )\n",
    ]
    for need in contract.requirements:
        if isinstance(need.rule, FieldRule):
            name = need.rule.field
            out.append(
                f"def {need.id}(ev):\n"
                f"    return rc.field_is(found(ev), {name!r}, ev.anchor({need.id!r}), kind={types[name]!r})\n"
            )
    return "\n\n".join(out) + guard.source
