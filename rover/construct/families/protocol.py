"""What a family of tasks is, and what it hands to the builder.

A family looks at the profile of real files and proposes a `Draft`: the whole task except what running gives.
The contract is fixed before any reference state exists, and the types say so: a draft has no place for a
value, `freeze` turns it into a `FrozenContract`, and `rover.construct.reference.demonstrate`, the only way to
a reference, takes nothing else.

A family's solvers get a `PolicyView` alone: they read the instruction's text, and files through tools. They
raise PolicyFailure where the text lacks a quantity or the harness lacks a tool, with a reason that names it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rover.construct.config import BuildConfig
from rover.policy.protocol import Plan
from rover_store.ids import digest
from rover_store.records import ContextFile, Contract, Criterion, Harness, Mutation
from rover_store.records.query import Scalar

if TYPE_CHECKING:
    from rover.construct.profile import Profile


@dataclass(frozen=True, slots=True)
class Dropped:
    """An attempt that ended without a package. `stage` groups the reasons in the table of a build."""

    stage: str
    reason: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A task before anything ran: everything that is authored, nothing that is derived.

    Anchors are not listed: the i-th anchor id of a criterion stands for the i-th answer in the rule of the
    requirement that it scores (`rover.construct.anchors.queries`).
    """

    title: str
    instruction: str
    contract: Contract
    #: every file of the workspace at its start, distractors included
    files: tuple[ContextFile, ...]
    harness: Harness
    criteria: tuple[Criterion, ...]
    #: file name below verifier/checks -> Python source
    checks: Mapping[str, str]
    #: at least four, each breaking one requirement
    negatives: tuple[Mutation, ...]
    #: rules that turn the reference into an equally valid state
    alternatives: tuple[Mutation, ...] = ()
    #: files that the family makes itself (path in the workspace -> bytes); the others are source files
    own: Mapping[str, bytes] = field(default_factory=dict)
    #: anchor id -> least and most rows that make a task worth while; others need at least one row
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    clock: str | None = None
    #: share of the weight that a pass needs, where it is not the usual one
    pass_weight: float | None = None
    #: what the family adds to the config in the provenance, e.g. the level of a graded task
    notes: Mapping[str, Scalar] = field(default_factory=dict)

    def sources(self) -> tuple[str, ...]:
        """Paths of the source files that the workspace takes."""
        return tuple(f.path for f in self.files if f.path not in self.own)


@runtime_checkable
class Family(Protocol):
    """A kind of task. Stateless: equal arguments give equal drafts."""

    name: str
    #: goes into provenance; raise it when equal arguments no longer give equal drafts
    version: str

    def propose(self, profile: Profile, rng: random.Random, config: BuildConfig) -> Draft | Dropped:
        """One task on these files, or why there is none. Every choice comes from `rng`."""

    def demonstrator(self) -> Plan:
        """The solver that gives the reference."""

    def alternative(self) -> Plan:
        """A solver written independently: its own parser, another route, another valid form of the output."""


_SEAL = object()


@dataclass(frozen=True, slots=True, init=False)
class FrozenContract:
    """A contract and its request, which can no longer change. Made by `freeze` or `stored` alone."""

    contract: Contract
    instruction: str
    digest: str

    def __init__(self, contract: Contract, instruction: str, seal: object) -> None:
        if seal is not _SEAL:
            raise TypeError("a contract is frozen by freeze(draft), not made")
        object.__setattr__(self, "contract", contract)
        object.__setattr__(self, "instruction", instruction)
        object.__setattr__(self, "digest", _digest(contract, instruction))

    def check(self, contract: Contract, instruction: str) -> None:
        """ValueError unless these are the frozen ones: a revision may change checks and cases only."""
        if _digest(contract, instruction) != self.digest:
            raise ValueError("the contract is frozen: a revision may change checks and cases only")


def _digest(contract: Contract, instruction: str) -> str:
    return digest([contract.model_dump(mode="json"), instruction])


def freeze(draft: Draft) -> FrozenContract:
    """Fix the contract of a draft, before any reference state exists."""
    return FrozenContract(draft.contract, draft.instruction, _SEAL)


def stored(contract: Contract, instruction: str) -> FrozenContract:
    """The contract of a stored package version, as it is."""
    return FrozenContract(contract, instruction, _SEAL)
