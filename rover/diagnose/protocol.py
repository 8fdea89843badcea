"""What a probe is, and what it may look at.

A probe asks one question about one package version and answers with findings: none means that it is silent.
It must be a function of the package, the seed and the engine alone, so that the gate `resolved` of a repair can
ask the same question of a candidate. It never learns how a defect came to be, and never sees the sealed audit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rover_store.ids import ComponentName
from rover_store.records import Finding, Trajectory, Verdict

if TYPE_CHECKING:
    from rover.diagnose.runs import Runs
    from rover.rollout.engine import Engine
    from rover.rollout.env import Env
    from rover.sandbox.protocol import Files


@dataclass(frozen=True, slots=True)
class Recorded:
    """A rollout that was recorded before on this very package version, with its verdict where it was graded."""

    rollout: str
    trajectory: Trajectory
    verdict: Verdict | None = None


@dataclass
class ProbeContext:
    """All that a probe may look at. `runs` makes each rollout once, however many probes ask for it."""

    env: Env
    engine: Engine
    seed: int = 0
    #: resources of the revision examined: "files/orders" -> tree id
    resources: Mapping[str, str] = field(default_factory=dict)
    recorded: tuple[Recorded, ...] = ()
    #: files of a tree by its id, for versions that package.json records; None where there is no store
    read: Callable[[str], Files] | None = None
    #: other versions of single components to try, beside those that diagnosis makes itself
    neighbours: tuple[Neighbours, ...] = ()

    @cached_property
    def runs(self) -> Runs:
        from rover.diagnose.runs import Runs

        return Runs(self)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The package with one component in another version. `how` says in words which."""

    component: ComponentName
    how: str
    env: Env


class Neighbours(Protocol):
    """Makes neighbours of a package for the components suspected; what cannot be made is left out."""

    def __call__(self, ctx: ProbeContext, components: Sequence[ComponentName]) -> Iterable[Neighbour]: ...


@runtime_checkable
class Probe(Protocol):
    """One question about a package version."""

    name: str
    #: kinds of findings that it was written for; empty where it knows no kind and sees only that something is wrong
    written_for: frozenset[str]
    #: 0 reads records and files, 1 runs jobs in a sandbox, 2 a rollout, 3 many rollouts; cheapest go first
    cost: int

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        """The findings, in a fixed order. Errors of sandbox, server or harness are raised, never made a finding."""
