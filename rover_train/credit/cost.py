"""Trace cost of turns: 1 for each tool error, 1 for each unproductive repetition."""

from __future__ import annotations

from collections.abc import Sequence

from rover_store.ids import digest
from rover_store.records import Turn


def costs(turns: Sequence[Turn], start: str) -> list[float]:
    """c_t of every turn. `start` is the id of the first workspace tree.

    A repetition is the same call with the same arguments on the same workspace that answers what it answered before.
    Within a turn the workspace is the tree before it and what the turn's own calls wrote since.
    """
    out = []
    answers: dict[str, set[str]] = {}
    tree = start
    for turn in turns:
        cost = 0
        wrote: list[tuple[str, str | None]] = []
        for call in turn.calls:
            cost += call.status == "error"
            known = answers.setdefault(digest([tree, wrote, call.tool, call.arguments]), set())
            cost += call.output in known
            known.add(call.output)
            wrote += [(a.path, a.blob) for a in call.writes]
        out.append(float(cost))
        tree = turn.tree
    return out
