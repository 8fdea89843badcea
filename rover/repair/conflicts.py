"""Dependency conflicts: an edit needs what the combination does not have, or two edits write one thing differently.

A proposal declares what it needs and writes as `path:`, `tool:`, `given:`, `anchor:`, `deliverable:`,
`requirement:` and a name; a write may add `=value`. Undeclared needs are no conflict: the gates find out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from rover.repair.candidates import Frozen
from rover.rollout.env import Env


def conflict(chosen: Sequence[Frozen], env: Env) -> str | None:
    """Why these proposals do not go together in `env` (their combination before any rebuild), or None."""
    for one, other in combinations(chosen, 2):
        clash = _clash(one, other)
        if clash:
            return f"{one.record.component} and {other.record.component} write {clash} differently"
    has = _offered(env)
    has |= {w.partition("=")[0] for proposal in chosen for w in proposal.record.writes}
    for proposal in chosen:
        for need in proposal.record.needs:
            kind = need.partition(":")[0]
            if kind in _KINDS and need not in has:
                return f"{proposal.record.component} needs {need}"
    return None


_KINDS = frozenset({"path", "tool", "given", "anchor", "deliverable", "requirement"})


def _offered(env: Env) -> set[str]:
    """Everything that the combination has, as needs are written."""
    contract = env.contract
    return {
        *(f"path:{p}" for p in env.start),
        *(f"path:{d.path}" for d in contract.deliverables),
        *(f"tool:{t}" for t in env.harness.tools),
        *(f"given:{g.name}" for g in contract.givens),
        *(f"anchor:{a.id}" for a in env.anchors.anchors),
        *(f"deliverable:{d.id}" for d in contract.deliverables),
        *(f"requirement:{r.id}" for r in contract.requirements),
    }


def _clash(one: Frozen, other: Frozen) -> str | None:
    """The first thing that both write, each in another way."""
    trees = {(r.kind, r.name): r.tree for r in one.record.resources}
    for change in other.record.resources:
        if trees.get((change.kind, change.name), change.tree) != change.tree:
            return f"{change.kind}/{change.name}"
    mine = dict(w.partition("=")[::2] for w in one.record.writes)
    for write in other.record.writes:
        name, _, value = write.partition("=")
        if name in mine and mine[name] != value:
            return name
    return None
