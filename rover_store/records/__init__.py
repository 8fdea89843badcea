"""Every record that rover stores. `ALL` lists those with a schema of their own, by kind."""

from rover_store.records.base import Part, Record, to_json
from rover_store.records.components import (
    Admission,
    Anchor,
    Anchors,
    Budget,
    Cases,
    Context,
    ContextFile,
    Criterion,
    Edge,
    Environment,
    Harness,
    Limits,
    McpServer,
    Mutation,
    Package,
    Program,
    Provenance,
    Reference,
    Resource,
    ResourceRef,
    SourceFile,
    StateFile,
    Task,
    Verifier,
)
from rover_store.records.contract import Contract, Deliverable, GivenValue, Requirement, Sameness
from rover_store.records.evidence import (
    Artifact,
    Call,
    Outcome,
    ProgramExit,
    RolloutKey,
    Score,
    ToolCall,
    Trajectory,
    Turn,
    TurnTokens,
    Usage,
    Verdict,
)
from rover_store.records.merge import Conflict, Merge, Side
from rover_store.records.query import Given, Query, Scalar, Source, Table
from rover_store.records.release import Release, ReleaseEntry
from rover_store.records.repair import (
    Candidate,
    Diagnosis,
    Finding,
    GateResult,
    Proposal,
    Repair,
    ResourceChange,
    SealedAudit,
)
from rover_store.records.training import Consistency, Demonstration, Pilot, PilotCount, PilotedTask, Split, SplitPart

ALL: dict[str, type[Record]] = {
    r.kind: r
    for r in (
        Package, Context, Task, Harness, Verifier, Anchors, Cases, Reference, Resource, Contract,
        Trajectory, Verdict, Diagnosis, Proposal, Candidate, Repair, SealedAudit, Release, ReleaseEntry,
        Merge, Demonstration, Pilot, Split, Consistency,
    )
}  # fmt: skip

__all__ = [
    "ALL", "Admission", "Anchor", "Anchors", "Artifact", "Budget", "Call", "Candidate", "Cases", "Conflict",
    "Consistency", "Context", "ContextFile", "Contract", "Criterion", "Deliverable", "Demonstration", "Diagnosis",
    "Edge", "Environment", "Finding", "GateResult", "Given", "GivenValue", "Harness", "Limits", "McpServer", "Merge",
    "Mutation", "Outcome", "Package", "Part", "Pilot", "PilotCount", "PilotedTask", "Program", "ProgramExit",
    "Proposal", "Provenance", "Query", "Record", "Reference", "Release", "ReleaseEntry", "Repair", "Requirement",
    "Resource", "ResourceChange", "ResourceRef", "RolloutKey", "Sameness", "Scalar", "Score", "SealedAudit", "Side",
    "Source", "SourceFile", "Split", "SplitPart", "StateFile", "Table", "Task", "ToolCall", "Trajectory", "Turn",
    "TurnTokens", "Usage", "Verdict", "Verifier", "to_json",
]  # fmt: skip
