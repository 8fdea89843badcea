"""The check file of chores, as a person would write it."""

from __future__ import annotations

from rover.construct.families.chores.spec import Change, Chore, Report
from rover.construct.families.guards import Guards


def source(chore: Chore, guard: Guards) -> str:
    """checks/main.py."""
    head = '"""Checks of the reports and of the ledger: one function for each requirement."""'
    out = [f"{head}\n\nimport rover_checks as rc\n"]
    out += [_report(p) if isinstance(p, Report) else _change(p, chore) for p in chore.parts]
    if chore.changes():
        key = [chore.changes()[0].key[0]]
        edits = ", ".join(f"{c.column!r}: ev.anchor({f'{c.id}-row'!r})" for c in chore.changes())
        out.append(
            f"def rest(ev):\n    return rc.rest_unchanged(ev, {chore.ledger!r}, key={key!r}, edits={{{edits}}})\n"
        )
    return "\n\n".join(out) + guard.source


def _report(r: Report) -> str:
    found, key = f"rc.table(ev.end({r.path!r}))", [r.key.name]
    return (
        f"def {r.id}_keys(ev):\n    return rc.rows_match({found}, ev.anchor({r.id!r}), {key!r})\n\n\n"
        f"def {r.id}_values(ev):\n    found = {found}\n"
        f"    return rc.cells_match(found, ev.anchor({r.id!r}), {key!r}, {r.value.name!r}, kind={r.value.type!r})\n"
    )


def _change(c: Change, chore: Chore) -> str:
    value = f"ev.value({f'{c.id}-value'!r})" if c.lookup else repr(c.told)
    kind = next(k.type for k in chore.ledger_columns if k.name == c.column)
    return (
        f"def {c.id}(ev):\n"
        f"    before, after = rc.table(ev.start({chore.ledger!r})), rc.table(ev.end({chore.ledger!r}))\n"
        f"    rows = ev.anchor({f'{c.id}-row'!r})\n"
        f"    return rc.edited(before, after, {[c.key[0]]!r}, {c.column!r}, rows, {value}, kind={kind!r})\n"
    )
