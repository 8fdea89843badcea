"""A hasty solver of chores: the demonstrator with habits that often do no harm, so that verified runs show them.

    guess   writes the usual value instead of looking it up: right where the value is the usual one
    glance  takes only the first rows of a table: right where it has no more

Which habits a run has follows from its seed and the request, so that runs of one seed differ over packages. A policy
trained on the runs that passed takes the habits over, and cannot see in the moment whether they are harmless: they
are what reinforcement learning has to unlearn.
"""

from __future__ import annotations

import random
from collections.abc import Generator

from rover.construct.families.chores import demonstrator
from rover.construct.families.chores.demonstrator import Report, look
from rover.construct.families.desk import Desk
from rover.policy.protocol import PolicyFailure, PolicyView
from rover_store.ids import digest
from rover_store.records import Call, ToolCall

#: the value that is guessed, the rows that are glanced at, and how often a run has each habit
USUAL, FIRST = "200", 3
GUESSES, GLANCES = 0.75, 0.65


def plan(view: PolicyView, seed: int) -> Generator[ToolCall, Call, str]:
    """Each part in turn, with the habits of this seed."""
    rng = random.Random(int(digest([seed, view.instruction])[:15], 16))
    guesses, glances = rng.random() < GUESSES, rng.random() < GLANCES
    desk = Desk(view)
    for step in demonstrator.read(view.instruction):
        if isinstance(step, Report):
            yield from _report(desk, step, guesses, FIRST if glances else None)
        elif guesses and step.found:
            yield from demonstrator.set_cell(desk, step, USUAL)
        else:
            yield from demonstrator.change(desk, step)
    return ""


def _report(desk: Desk, step: Report, guesses: bool, limit: int | None) -> Generator[ToolCall, Call, None]:
    second = step.found.key if step.found else step.value
    rows = yield from look(desk, step.source, (step.key, second), {step.column: step.wanted}, limit)
    if not rows:
        raise PolicyFailure(f"no row of {step.source} has {step.wanted} in {step.column}")
    for key, there in rows:
        value = there
        if step.found:
            value = USUAL if guesses else (yield from demonstrator.value_of(desk, step.found, there))
        yield from desk.use("append_rows", path=step.path, columns=[step.key, step.value], rows=[[key, value]])

