"""A package's files from a draft and what running gave: canonical JSON, dependency edges, resources.

One resource for each source file, so that packages built from one folder share them. Equal inputs give equal
bytes, hence equal tree ids.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rover.construct.anchors import queries
from rover.construct.families.protocol import Draft
from rover.construct.reference import Demonstration
from rover.rollout.env import below, tree_of
from rover.sandbox.protocol import Files
from rover_store.ids import COMPONENTS, ComponentName, blob_id
from rover_store.records import (
    Admission,
    Anchors,
    Cases,
    Context,
    Contract,
    Edge,
    Package,
    Provenance,
    Query,
    Resource,
    ResourceRef,
    Source,
    SourceFile,
    Task,
    Trajectory,
    Verifier,
)

#: id of the alternative end state that the second solver gave
ALTERNATIVE = "alternative"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a package comes from: its name, its workspace, how to build it again."""

    name: str
    family: str
    workspace: str
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything that goes into a package. Reference, alternative and admission are added as they come."""

    origin: Origin
    draft: Draft
    anchors: Anchors
    #: bytes of the source files by path
    sources: Mapping[str, bytes]
    reference: Demonstration | None = None
    alternative: Demonstration | None = None
    admission: Admission | None = None

    def having(self, **changes: object) -> Parts:
        return replace(self, **changes)  # type: ignore[arg-type]


def resources(parts: Parts) -> dict[str, Files]:
    """`files/NAME` -> the files of the resource, one for each source file of the workspace."""
    used = sorted(parts.draft.sources())
    return {f"files/{resource_name(parts.origin.workspace, p)}": _resource(parts, p) for p in used}


def resource_name(workspace: str, path: str) -> str:
    """A name for one source file: readable, and no two paths share it."""
    slug = re.sub(r"[^a-z0-9]+", "-", path.lower()).strip("-")[:50]
    plain = f"{workspace}-{slug}"
    exact = re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9]+)?", path) and "--" not in path and len(path) <= 50
    return plain if exact else f"{plain}-{hashlib.sha256(path.encode()).hexdigest()[:6]}"


def _resource(parts: Parts, path: str) -> Files:
    data = parts.sources[path]
    record = Resource(
        name=resource_name(parts.origin.workspace, path),
        title=path,
        license=parts.origin.provenance.license,
        sources=(SourceFile(path=path, sha256=hashlib.sha256(data).hexdigest()),),
    )
    return {"resource.json": record.dump(), f"files/{path}": data}


def files(parts: Parts) -> dict[str, bytes]:
    """The package folder, path -> bytes, sorted."""
    draft = parts.draft
    bound = {name: tree_of(content) for name, content in resources(parts).items()}
    context = Context(
        files=draft.files,
        resources=tuple(ResourceRef(name=n.removeprefix("files/"), tree=tree) for n, tree in bound.items()),
        capabilities=draft.capabilities,
        clock=draft.clock,
    )
    out: dict[str, bytes] = {
        "context/context.json": context.dump(),
        **{f"context/files/{path}": data for path, data in draft.own.items()},
        "task/task.json": Task(title=draft.title).dump(),
        "task/instruction.md": draft.instruction.encode(),
        "task/contract.json": draft.contract.dump(),
        "harness/harness.json": draft.harness.dump(),
        **{f"verifier/{path}": data for path, data in verifier_files(parts).items()},
    }
    ids = {name: tree_of(below(out, f"{name}/")) for name in COMPONENTS}
    if parts.reference:
        out["demonstrations/demonstrator.json"] = _anywhere(parts.reference.trajectory).dump()
    out["package.json"] = _record(parts, ids, bound).dump()
    return dict(sorted(out.items()))


def verifier_files(parts: Parts) -> dict[str, bytes]:
    """The verifier component, path -> bytes."""
    draft = parts.draft
    states = (ALTERNATIVE,) if parts.alternative else ()
    out = {
        "verifier.json": _verifier(draft).dump(),
        "anchors.json": parts.anchors.dump(),
        **{f"checks/{name}": source.encode() for name, source in draft.checks.items()},
        "cases/cases.json": Cases(negatives=draft.negatives, alternatives=draft.alternatives, states=states).dump(),
    }
    if parts.alternative:
        out |= alternative_files(parts.alternative)
    if parts.reference:
        out |= reference_files(parts.reference)
    return out


def _verifier(draft: Draft) -> Verifier:
    if draft.pass_weight is None:
        return Verifier(criteria=draft.criteria)
    return Verifier(criteria=draft.criteria, pass_weight=draft.pass_weight)


def reference_files(made: Demonstration) -> dict[str, bytes]:
    """reference/: the change of the start, and the changed files."""
    out = {"reference/reference.json": made.reference.dump()}
    return out | {f"reference/files/{path}": data for path, data in made.files.items()}


def alternative_files(made: Demonstration) -> dict[str, bytes]:
    """cases/alternative/: the other solver's end state."""
    out = {f"cases/{ALTERNATIVE}/state.json": made.reference.dump()}
    return out | {f"cases/{ALTERNATIVE}/files/{path}": data for path, data in made.files.items()}


def _record(parts: Parts, ids: Mapping[ComponentName, str], bound: Mapping[str, str]) -> Package:
    wanted = queries(parts.draft.contract, parts.draft.criteria)
    read = sorted({blob_id(_bytes(parts, path)) for q in wanted.values() for path in paths_of(q)})
    edges = [Edge(source="context", target=f"resources/{name}", version=tree) for name, tree in bound.items()]
    edges += [
        Edge(source="task", target="context", version=ids["context"]),
        Edge(source="harness", target="context", version=ids["context"]),
        Edge(source="verifier", target="context", version=ids["context"], blobs=tuple(read)),
        Edge(source="verifier", target="task", version=ids["task"]),
        Edge(source="verifier", target="harness", version=ids["harness"]),
    ]
    origin = parts.origin
    return Package(
        name=origin.name,
        title=parts.draft.title,
        family=origin.family,
        workspace=origin.workspace,
        provenance=origin.provenance,
        edges=tuple(edges),
        admission=parts.admission,
    )


def _bytes(parts: Parts, path: str) -> bytes:
    return parts.draft.own[path] if path in parts.draft.own else parts.sources[path]


def paths_of(query: Query) -> set[str]:
    """Files that a query reads."""
    found = {query.source.path}
    for join in query.joins:
        found |= {join.right.path} if isinstance(join.right, Source) else paths_of(join.right)
    return found


def answered(contract: Contract, anchors: Anchors, draft: Draft) -> dict[str, object]:
    """Requirement id -> the values of its answers."""
    tables = {a.id: a.value.model_dump(mode="json") for a in anchors.anchors}
    used = {c.requirement: c.anchors for c in draft.criteria if c.anchors}
    return {need.id: [tables[a] for a in used[need.id]] for need in contract.requirements if need.id in used}


def _anywhere(trajectory: Trajectory) -> Trajectory:
    """A demonstration without the runtime that it was made on: a package has the same id on any machine."""
    return trajectory.model_copy(update={"key": trajectory.key.model_copy(update={"runtime": ""})})
