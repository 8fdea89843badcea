"""Drills: dialogues on made-up tables, played on a desk in memory, to pretrain a small model.

Real models come to a task knowing how to read, copy, look up and call a tool; a model from a config knows nothing, and
a few hundred packages cannot teach it to copy. Drills are what its pretraining reads: requests of one to three parts,
worked through by somebody hasty (chores.hasty), and verified by nobody, as text that models are pretrained on is. No
package and none of its files is among them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

from rover.construct.families.chores import hasty, propose, spec
from rover.construct.families.chores.spec import Change, Chore, Lookup, Part, Report
from rover.harness.tools.specs import offered
from rover.policy.protocol import PolicyView
from rover_store.ids import digest
from rover_store.records import Call
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
        yield render(renderer, view, tables, seed)
        number += 1


def draw(rng: random.Random, kinds: str = "RRLLEV", most: int = 3) -> tuple[PolicyView, dict[str, Table]]:
    """A drill: what is asked, and the tables. Reports, which are harder, come twice as often."""
    tables = workspaces.draw(rng)
    asked = [rng.choice(kinds) for _ in range(rng.randint(1, most))]
    ledger = iter(rng.sample(tables["ledger.csv"][1:], len(asked)))
    paths = iter(rng.sample(propose.PATHS, len(propose.PATHS)))
    parts: list[Part] = []
    for kind in asked:
        path = next(paths, "") if kind in "RL" else "ledger.csv"
        if path:  # there are no more paths than two reports take
            parts.append(_part(rng, kind, tables, next(ledger), path))
    request = spec.request(Chore(tuple(parts), "ledger.csv"), rng)  # it ends with a line break, as packages have it
    return PolicyView(request, offered(propose.TOOLS)), tables


def render(renderer: Renderer, view: PolicyView, tables: dict[str, Table], seed: int = 0) -> Row:
    """The row that a rollout of the hasty worker on these tables would give."""
    dialogue = renderer.dialogue(view)
    results: tuple[Call, ...] = ()
    for action, answers in play(hasty.plan, view, Desk(tables), seed):
        dialogue.open_turn(results)
        dialogue.write(renderer.turn_ids(action.calls, action.message))
        results = answers
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
