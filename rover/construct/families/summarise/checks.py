"""The check file of a summary, as a person would write it."""

from __future__ import annotations

from rover.construct.families.guards import Guards
from rover_store.records import Contract
from rover_store.records.contract import CellsRule, OrderRule

#: the anchor that holds the whole answer
ANCHOR = "summary"


def source(contract: Contract, guard: Guards) -> str:
    """checks/main.py."""
    target = contract.deliverables[0]
    kinds = {c.name: c.type for c in target.columns}
    key_kinds = {k: kinds[k] for k in target.key}
    out = [
        f'"""Checks of {target.path}: one function for each requirement."""\n\n'
        "import rover_checks as rc\n\n"
        f"PATH = {target.path!r}\nSHEET = {target.sheet!r}\n"
        f"KEY = {list(target.key)!r}\nKEY_KINDS = {key_kinds!r}\n",
        "def found(ev):\n    return rc.table(ev.end(PATH), SHEET)\n",
        f"def format(ev):\n    return rc.has_columns(found(ev), {[c.name for c in target.columns]!r})\n",
        f"def rows(ev):\n    return rc.rows_match(found(ev), ev.anchor({ANCHOR!r}), KEY, kind=KEY_KINDS)\n",
    ]
    for need in contract.requirements:
        if isinstance(need.rule, CellsRule):
            column = next(c for c in target.columns if c.name == need.rule.column)
            out.append(
                f"def {need.id.replace('-', '_')}(ev):\n"
                f"    return rc.cells_match(\n"
                f"        found(ev), ev.anchor({ANCHOR!r}), KEY, {column.name!r},\n"
                f"        tolerance={column.tolerance!r}, kind={column.type!r}, key_kind=KEY_KINDS,\n"
                f"    )\n"
            )
        elif isinstance(need.rule, OrderRule):
            column = next(c for c in target.columns if c.name == need.rule.column)
            out.append(
                f"def order(ev):\n    return rc.in_order("
                f"found(ev), {column.name!r}, descending={need.rule.descending!r}, kind={column.type!r})\n"
            )
    return "\n\n".join(out) + guard.source
