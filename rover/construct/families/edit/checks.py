"""The check file of an edit, as a person would write it."""

from __future__ import annotations

from rover.construct.families.guards import Guards
from rover_store.records import Contract
from rover_store.records.contract import EditRule
from rover_store.records.query import Scalar

#: the anchor that holds the keys of the rows to change
ANCHOR = "rows"

_EDIT = '''def edit(ev):
    """The listed rows hold the new value; in all others the column is as it was."""
    before, after = rc.table(ev.start(PATH), SHEET), rc.table(ev.end(PATH), SHEET)
    return rc.edited(before, after, KEY, COLUMN, ev.anchor("rows"), VALUE, kind=KIND)
'''

_REST = '''def rest(ev):
    """Every other cell, the order of rows and the other sheets are as they were."""
    return rc.rest_unchanged(ev, PATH, sheet=SHEET, key=KEY, edits={COLUMN: ev.anchor("rows")})
'''


def source(contract: Contract, guard: Guards, value: Scalar) -> str:
    """checks/main.py."""
    target = contract.deliverables[0]
    rule = next(n.rule for n in contract.requirements if isinstance(n.rule, EditRule))
    kind = next(c.type for c in target.columns if c.name == rule.column)
    names = [c.name for c in target.columns]
    head = (
        f'"""Checks of the edit of {target.path}: one function for each requirement."""\n\n'
        "import rover_checks as rc\n\n"
        f"PATH = {target.path!r}\nSHEET = {target.sheet!r}\nKEY = {list(target.key)!r}\n"
        f"COLUMN = {rule.column!r}\nVALUE = {value!r}\nKIND = {kind!r}\n"
    )
    shape = f"def format(ev):\n    return rc.has_columns(rc.table(ev.end(PATH), SHEET), {names!r})\n"
    return "\n\n".join((head, shape, _EDIT, _REST)) + guard.source
