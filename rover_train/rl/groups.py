"""The groups of a step: `group` rollouts of each package, complete or not at all.

A rollout that the infrastructure or the verifier spoilt is tried again under a new seed, all of them together in one
round; a group that stays incomplete leaves the batch and is counted. It is never filled with a reward of 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rover.policy.protocol import Policy
from rover.rollout.env import Env
from rover.rollout.records import RolloutRequest
from rover.rollout.spoilt import failure
from rover_train.rl.arena import Arena, Entry
from rover_train.rl.schedule import rollout_seed
from rover_train.sample.policy import Actor


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """Graded rollouts of one package."""

    env: Env
    entries: tuple[Entry, ...]


@dataclass(slots=True)
class Collected:
    """What a step played. `outcomes` counts every rollout, the spoilt ones too; `dropped` names packages whose group
    could not be filled."""

    groups: list[TaskGroup] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    dropped: list[str] = field(default_factory=list)

    @property
    def entries(self) -> list[Entry]:
        return [entry for group in self.groups for entry in group.entries]


def collect(
    arena: Arena, policy: Policy, actor: Actor, names: Sequence[str], *, group: int, retries: int, seed: int, step: int
) -> Collected:
    """Play `group` rollouts of each package. ProviderError or SandboxError where no group at all can be filled."""
    filled: dict[tuple[str, int], Entry] = {}
    missing = [(name, k) for name in names for k in range(group)]
    out = Collected()
    reason = ""
    for attempt in range(retries + 1):
        requests = [
            RolloutRequest(arena.env(name), policy, rollout_seed(seed, step, name, k, attempt)) for name, k in missing
        ]
        entries = arena.play(requests, actor)
        out.outcomes.update(entry.outcome for entry in entries)
        filled.update((slot, entry) for slot, entry in zip(missing, entries, strict=True) if entry.counts)
        reason = next((_why(entry) for entry in entries if not entry.counts), reason)
        missing = [slot for slot in missing if slot not in filled]
        if not missing:
            break
    lost = {name for name, _ in missing}
    out.dropped = [name for name in names if name in lost]
    out.groups = [
        TaskGroup(arena.env(name), tuple(filled[name, k] for k in range(group))) for name in names if name not in lost
    ]
    if not out.groups:
        raise failure(f"no group of step {step + 1} could be filled; the last failure", reason)
    return out


def _why(entry: Entry) -> str:
    return entry.done.result.trajectory.error or entry.graded.verdict.reason
