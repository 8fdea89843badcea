"""Drills: short dialogues with made-up tables, played on a desk in memory, to pretrain a small model.

Real models come to a task knowing how to read, copy, look up and call a tool; a model from a config knows nothing, and
a few hundred packages cannot teach it to copy. A drill is one part of a chore (a report, a looked-up report, a cell),
or two of the same kind, on tables of its own: no package, none of its files, and never a whole task, whose parts are
of different kinds.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

from rover.construct.families.chores import demonstrator, propose, spec
from rover.construct.families.chores.spec import Change, Chore, Lookup, Part, Report
from rover.harness.tools.specs import offered
from rover.policy.protocol import PolicyView
from rover_store.ids import digest
from rover_store.records.contract import Column
from rover_train.render import Renderer
from rover_train.rows import Row
from rover_train.world import workspaces
from rover_train.world.desk import Desk, play
from rover_train.world.workspaces import Table

LOOKUP = Lookup("rates.csv", "item", "rate")


def drills(renderer: Renderer, seed: int) -> Iterator[Row]:
    """Rendered drills without end; the n-th is the same for the same seed."""
    number = 0
    while True:
        rng = random.Random(int(digest(["drill", seed, number])[:15], 16))
        view, tables = draw(rng)
        yield render(renderer, view, tables)
        number += 1


def draw(rng: random.Random, kinds: str = "RRLLEV") -> tuple[PolicyView, dict[str, Table]]:
    """A drill: what is asked, and the tables. Reports, which are harder, come twice as often."""
    tables = workspaces.draw(rng)
    kind, count = rng.choice(kinds), rng.choice((1, 2))
    ledger = rng.sample(tables["ledger.csv"][1:], count)
    paths = rng.sample(propose.PATHS, count)
    parts = tuple(_part(rng, kind, tables, row, path) for row, path in zip(ledger, paths, strict=True))
    request = spec.request(Chore(parts, "ledger.csv"), rng).strip()
    return PolicyView(request, offered(propose.TOOLS)), tables


def render(renderer: Renderer, view: PolicyView, tables: dict[str, Table]) -> Row:
    """The row that a rollout of the demonstrator on these tables would give."""
    dialogue = renderer.dialogue(view)
    results = ()
    for action, answers in play(demonstrator.plan, view, Desk(tables)):
        dialogue.open_turn(results)
        dialogue.write(renderer.turn_ids(action.calls, action.message))
        results = answers  # type: ignore[assignment]
    return dialogue.rows()[0]


def _part(rng: random.Random, kind: str, tables: dict[str, Table], row: list[str], path: str) -> Part:
    if kind in "RL":
        sites = Counter(row[1] for row in tables["main.csv"][1:])
        least, most = propose.ROWS if kind == "R" else propose.LOOKED_UP
        site = rng.choice(sorted(s for s, n in sites.items() if least <= n <= most))
        key, value = Column(name="id", type="integer"), Column(name="rate" if kind == "L" else "qty", type="integer")
        return Report("report", path, "main.csv", ("site", site), key, value, LOOKUP if kind == "L" else None)
    where = ("id", int(row[0]))
    if kind == "V":
        return Change("cell", where, "paid", lookup=LOOKUP)
    return Change("cell", where, "state", told=rng.choice([s for s in workspaces.STATES if s != row[2]]))
