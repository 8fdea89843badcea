"""What a probe is, and what it may look at.

A probe asks one question about one package version and answers with findings: none means that it is silent.
It must be a function of the package, the seed and the engine alone, so that the gate `resolved` of a repair can
ask the same question of a candidate. It never learns how a defect came to be, and never sees the sealed audit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rover_store.records import Finding, Trajectory, Verdict

if TYPE_CHECKING:
    from rover.diagnose.runs import Runs
    from rover.rollout.engine import Engine
    from rover.rollout.env import Env


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

    @cached_property
    def runs(self) -> Runs:
        from rover.diagnose.runs import Runs

        return Runs(self)


@runtime_checkable
class Probe(Protocol):
    """One question about a package version."""

    name: str
    #: 0 reads records and files, 1 runs jobs in a sandbox, 2 a rollout, 3 many rollouts; cheapest go first
    cost: int

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        """The findings, in a fixed order. Errors of sandbox, server or harness are raised, never made a finding."""
