"""What a proposer is, what it may see, and what it hands over.

A proposer sees the package and the diagnosis: not the other proposals, not the sealed audit, not how a defect
was made. It takes it that its component is at fault wherever a confirmed finding names it as a suspect, and makes it
fit the rest: the other three components and the contract. It returns the files of the one component that it would
replace; repair freezes them as a Proposal once and never asks again during the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

from rover.rollout.env import Env, below
from rover_store.ids import ComponentName
from rover_store.records import Contract, Diagnosis, Finding

if TYPE_CHECKING:
    from rover.rollout.engine import Engine

Files = Mapping[str, bytes]
Style = Literal["rule", "rederive", "history", "model", "hasty", "hand"]


@dataclass(frozen=True, slots=True)
class Earlier:
    """A component as an earlier revision had it, newest first. `admitted`: that revision's admission names it."""

    commit: str
    tree: str
    files: Files
    admitted: bool


class Neighbour(NamedTuple):
    """How another package holds a shared resource: the version it is bound to, and the one it was built on."""

    bound: str
    built_on: str | None


class Precedent(NamedTuple):
    """An edit that a repair made in another package: one component before and after."""

    commit: str
    package: str
    component: ComponentName
    before: Files
    after: Files


@dataclass(frozen=True)
class PackageView:
    """A package as a proposer sees it. The callables answer for this package alone and give no way to the store."""

    name: str
    commit: str
    tree: str
    env: Env
    files: Files  #: the whole package, paths relative to its folder (package.json, context/context.json, ...)
    resources: Mapping[str, Files]  #: each bound resource, `files/orders` -> resource.json, files/...
    siblings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  #: resource -> other packages bound to it
    engine: Engine | None = None  #: for proposers that derive or run something
    history: Callable[[ComponentName], Iterable[Earlier]] | None = None  #: None where history is off
    read: Callable[[str], Files] | None = None  #: files of a tree by its id, for versions that package.json records
    intent: Contract | None = None  #: the frozen intent, where it is not the package's own contract
    present: Mapping[str, str] = field(default_factory=dict)  #: resources of the revision -> their trees
    neighbours: Callable[[str], Mapping[str, Neighbour]] | None = None  #: of a resource: package -> how it is held
    precedents: Callable[[ComponentName], Iterable[Precedent]] | None = None  #: repairs of other packages, newest first

    @property
    def contract(self) -> Contract:
        """What everything has to fit: the frozen intent, which is the package's own contract unless that is at odds."""
        return self.intent or self.env.contract

    def component(self, name: ComponentName) -> dict[str, bytes]:
        """The files of one component, paths relative to its folder."""
        return below(self.files, name + "/")


@dataclass(frozen=True)
class Draft:
    """What a proposer hands over: the whole replacement of one component.

    `files`: paths relative to the component's folder. `resources`: whole trees (resource.json, files/...) of the
    shared resources that a C proposal replaces as well; freezing writes their ids into context.json.
    `needs` and `writes` name what the edit relies on and what it leaves: `path:data/a.csv` (a file of the
    workspace), `tool:read_table`, `given:year` (stated in the instruction or contract), `anchor:totals`,
    `deliverable:report`, `requirement:R2`.
    """

    component: ComponentName
    files: Files
    resources: Mapping[str, Files] = field(default_factory=dict)
    source: Literal["rule", "rederive", "history", "hand", "model"] = "rule"
    rationale: str = ""
    needs: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    proposer: str = ""  #: name of the proposer
    style: str = ""  #: its style; the source where it says none


@runtime_checkable
class Proposer(Protocol):
    """Proposes a replacement for one component, or nothing."""

    name: str
    component: ComponentName
    style: Style
    #: kinds of findings that a rule of it was written for; empty: it knows no kind, and works for all of them
    written_for: frozenset[str]

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        """A replacement that may help with the diagnosed findings, or None. Deterministic for equal inputs."""


def suspected(component: ComponentName, diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """The confirmed findings that name this component among their suspects, in their order."""
    return tuple(f for f in diagnosis.findings if f.status == "confirmed" and component in f.components)
