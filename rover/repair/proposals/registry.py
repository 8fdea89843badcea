"""Who proposes, and in what order: rules, re-derivation, other distributions' proposers, history. One a component.

Other distributions add proposers as `rover.proposers` entry points (a class without arguments).
"""

from __future__ import annotations

from importlib.metadata import entry_points

from rover.repair.proposals.history import FromHistory
from rover.repair.proposals.protocol import Draft, PackageView, Proposer
from rover.repair.proposals.rules_context import ContextByRule
from rover.repair.proposals.rules_harness import HarnessByRule
from rover.repair.proposals.rules_task import TaskByRule
from rover.repair.proposals.rules_verifier import VerifierAgain, VerifierByRule
from rover_store.errors import UsageError
from rover_store.ids import COMPONENTS
from rover_store.records import Diagnosis

GROUP = "rover.proposers"


def proposers(*, history: bool = True) -> tuple[Proposer, ...]:
    """The built-in proposers, those of other distributions, and, unless it is off, history."""
    found: list[Proposer] = [ContextByRule(), TaskByRule(), HarnessByRule(), VerifierByRule(), VerifierAgain()]
    for point in sorted(entry_points(group=GROUP), key=lambda p: p.name):
        made = point.load()()
        if not isinstance(made, Proposer):
            raise UsageError(f"the entry point {GROUP}:{point.name} gives no proposer")
        found.append(made)
    if history:
        found += [FromHistory(component) for component in COMPONENTS]
    return tuple(found)


def propose(view: PackageView, diagnosis: Diagnosis, *, history: bool = True) -> tuple[Draft, ...]:
    """At most one draft for each component, in the order C, T, H, V: the first that changes something.

    `history` False leaves out what would merely take back an edit.
    """
    chosen: dict[str, Draft] = {}
    for proposer in proposers(history=history and view.history is not None):
        if proposer.component in chosen:
            continue
        made = proposer.propose(view, diagnosis)
        if made is not None and (dict(made.files) != view.component(made.component) or made.resources):
            chosen[made.component] = made
    return tuple(chosen[c] for c in COMPONENTS if c in chosen)
