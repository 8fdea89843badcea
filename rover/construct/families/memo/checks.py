"""The check file of a memo, as a person would write it."""

from __future__ import annotations

from rover.construct.families.guards import Guards
from rover.construct.families.memo.spec import Memo


def source(memo: Memo, guard: Guards) -> str:
    """checks/main.py. The anchor of a figure has the name of its requirement."""
    out = [
        f'"""Checks of {memo.path}: one function for each requirement."""\n\n'
        f"import rover_checks as rc\n\nPATH = {memo.path!r}\n",
        "def found(ev):\n    return rc.text(ev.end(PATH))\n",
        "def format(ev):\n    return (1.0, '') if found(ev).strip() else (0.0, 'the memo is empty')\n",
    ]
    out += [
        f"def {figure.id.replace('-', '_')}(ev):\n"
        f"    value = ev.anchor({figure.id!r})\n"
        f"    return rc.figure_near(found(ev), {figure.label!r}, value, tolerance={figure.tolerance!r})\n"
        for figure in memo.figures
    ]
    out.append(f"def sources(ev):\n    return rc.cites(found(ev), {list(memo.cited())!r})\n")
    return "\n\n".join(out) + guard.source
