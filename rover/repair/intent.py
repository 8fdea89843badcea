"""The frozen intent of a package, and whether a candidate still has it, demand by demand.

The intent is the request and the contract of the last admitted revision. A package that never was admitted has
the reading that most of its own parts agree on (rover.repair.vote).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from rover.repair.program_intent import demands_of
from rover.repair.wording import Demand, demands
from rover.rollout.env import Env
from rover_store.ids import COMPONENTS
from rover_store.records import Contract


@dataclass(frozen=True, slots=True)
class Intent:
    """What the task means, whatever happens to its files."""

    contract: Contract
    instruction: str
    origin: Literal["admission", "vote"]
    commit: str = ""  # the admitted revision
    start: dict[str, bytes] = field(default_factory=dict)  # its workspace; empty where never admitted
    pass_weight: float = 0.0  # its pass mark
    critical: frozenset[str] = frozenset()  # requirements that the contract and a criterion call critical
    undecided: tuple[str, ...] = ()  # requirements (or paths) on which the vote was a tie
    notes: tuple[str, ...] = ()
    said: tuple[str, ...] = ()  # where a program is the verifier: files that the request has to name


def is_admitted(env: Env) -> bool:
    """Whether this very version passed the admission test: it names the present component ids."""
    admission = env.record.admission
    return admission is not None and all(admission.components.get(c) == env.component_id(c) for c in COMPONENTS)


def last_admitted(versions: Iterable[tuple[str, Env]]) -> Intent | None:
    """The intent of the newest admitted version among `(commit, env)`, newest first; None where there is none."""
    for commit, env in versions:
        if is_admitted(env):
            mark, critical = env.verifier.pass_weight, criticals(env)
            start = dict(env.start)
            return Intent(env.contract, env.instruction, "admission", commit, start, mark, critical)
    return None


def criticals(env: Env) -> frozenset[str]:
    """Requirements without which nothing passes: critical in the contract and by a criterion."""
    scored = {c.requirement for c in env.verifier.criteria if c.critical}
    return frozenset(r.id for r in env.contract.requirements if r.critical and r.id in scored)


def loosened(intent: Intent, env: Env) -> Iterator[str]:
    """Where the verifier's rules are weaker than the frozen ones: a lower pass mark, a criterion that may fail."""
    if env.verifier.pass_weight < intent.pass_weight:
        yield f"the pass mark is {env.verifier.pass_weight:g} instead of {intent.pass_weight:g}"
    yield from (f"no criterion of {name} is critical any more" for name in sorted(intent.critical - criticals(env)))


def differences(intent: Intent, env: Env) -> list[str]:
    """Where the candidate's task is not the intended one: each line names a demand and what became of it."""
    return [demand.line for demand in listing(intent, env) if demand.state != "kept"]


def listing(intent: Intent, env: Env) -> tuple[Demand, ...]:
    """Every demand of the frozen intent, and what the candidate makes of it."""
    if env.verifier.program is not None:
        return demands_of(intent.contract, intent.instruction, intent.said, env)
    return demands(intent.contract, intent.instruction, env)
