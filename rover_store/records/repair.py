"""Records of diagnosis and repair."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from rover_store.ids import ComponentName, ObjectId
from rover_store.records.base import Part, Record


class Finding(Part):
    """One thing a probe found. A static finding stays a hypothesis until something that ran confirms it."""

    probe: str
    kind: Annotated[str, Field(description="defect kind, e.g. missing_input")]
    message: Annotated[str, Field(description="one line a person understands")]
    components: Annotated[tuple[ComponentName, ...], Field(description="suspects, the likeliest first")]
    status: Literal["confirmed", "hypothesis"] = "confirmed"
    requirement: str | None = None
    evidence: Annotated[tuple[str, ...], Field(description="rollout ids, object ids, paths")] = ()
    details: dict[str, Any] = {}
    confidence: Annotated[
        float | None, Field(ge=0, le=1, description="how often such a finding was right on development suites")
    ] = None
    excludes: Annotated[tuple[str, ...] | None, Field(description="what this finding rules out, in words")] = None


class Diagnosis(Record):
    """What the evidence says about one package version."""

    kind: ClassVar[str] = "diagnosis"

    package: str
    tree: Annotated[ObjectId, Field(description="tree of the package that was examined")]
    verdict: Literal["sound", "environment", "agent", "infrastructure", "undecided"]
    findings: tuple[Finding, ...] = ()
    summary: str = ""
    rollouts_run: int = 0
    rollouts_reused: int = 0
    blame: Annotated[
        dict[ComponentName, float] | None,
        Field(description="probability that a component is at fault, the likeliest first"),
    ] = None
    confidence: Annotated[float | None, Field(ge=0, le=1, description="that the verdict is right")] = None


class ResourceChange(Part):
    """A shared resource that a context proposal replaces."""

    kind: Literal["files", "skills", "apps"] = "files"
    name: str
    tree: ObjectId


class Proposal(Record):
    """A frozen replacement for one component."""

    kind: ClassVar[str] = "proposal"

    component: ComponentName
    tree: ObjectId
    resources: tuple[ResourceChange, ...] = ()
    source: Literal["rule", "rederive", "history", "hand", "model"]
    rationale: str = ""
    needs: Annotated[tuple[str, ...], Field(description="paths, fields and tools it needs: path:..., tool:...")] = ()
    writes: Annotated[tuple[str, ...], Field(description="what it writes")] = ()
    proposer: Annotated[str | None, Field(description="name of the proposer that made it")] = None
    style: Annotated[
        str | None, Field(description="how it was made: rule, rederive, history, model, hasty or hand")
    ] = None


class GateResult(Part):
    gate: Literal["resolved", "intent", "boundary", "verifier", "siblings", "rebuild", "confirm", "audit"]
    passed: bool
    reason: str = ""
    evidence: Annotated[tuple[str, ...], Field(description="rollout ids, component and blob ids, case:ID")] = ()
    details: Annotated[
        tuple[str, ...] | None, Field(description="of the gate intent: every demand, and whether it is kept")
    ] = None


class Candidate(Record):
    """One combination, expanded to its closure, rebuilt and replayed."""

    kind: ClassVar[str] = "candidate"

    mask: Annotated[int, Field(ge=0, le=15, description="C = 1, T = 2, H = 4, V = 8")]
    commit: ObjectId | None = None
    closure: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    rebuilt: tuple[str, ...] = ()
    cost: int = 0
    status: Literal["passed", "rejected", "conflict", "not_run", "control"]
    gates: tuple[GateResult, ...] = ()
    rollouts_run: int = 0
    rollouts_reused: int = 0


class Repair(Record):
    """case.json of a repair case: diagnosis, frozen proposals, the lattice, and what was chosen."""

    kind: ClassVar[str] = "repair"

    case: str
    package: str
    parent: ObjectId
    diagnosis: Diagnosis
    proposals: tuple[Proposal, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    selected: Annotated[int | None, Field(description="mask of the chosen combination")] = None
    joint: Annotated[bool | None, Field(description="needs joint edits; known after an exhaustive run")] = None
    confirmation: tuple[GateResult, ...] = ()
    promoted: Annotated[ObjectId | None, Field(description="commit the branch moved to")] = None
    outcome: Literal["promoted", "review", "kept", "abstained", "undecided", "dry_run"]
    reason: str = ""

    @property
    def audited(self) -> bool:
        """Whether a sealed audit confirmed the choice. A case without one counts as unresolved in every measure."""
        return any(g.gate == "audit" and g.passed and g.evidence for g in self.confirmation)


class SealedAudit(Record):
    """Held-out checks of one package, kept outside it. Written once by the builder; read after confirmation."""

    kind: ClassVar[str] = "audit"

    package: str
    negatives: tuple[Any, ...] = ()
    alternatives: tuple[Any, ...] = ()
    contract: Annotated[dict[str, Any], Field(description="the contract at admission, as stored")] = {}
    answers: Annotated[dict[str, Any], Field(description="answers at admission by requirement id")] = {}
