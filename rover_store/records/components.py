"""The task package and its four components, as stored."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from rover_store.ids import ComponentName, Name, ObjectId
from rover_store.records.base import Part, Record
from rover_store.records.query import Query, Scalar, Table


# --- context ---------------------------------------------------------------------------------------------
class ContextFile(Part):
    """One file of the workspace at its start."""

    path: str
    access: Literal["editable", "protected"] = "protected"
    role: Literal["input", "starter", "distractor"] = "input"
    meaning: str = ""


class ResourceRef(Part):
    """A shared resource, bound to one version. Its files appear in the workspace below `mount`."""

    kind: Literal["files", "skills", "apps"] = "files"
    name: Name
    tree: ObjectId
    mount: Annotated[str, Field(description="folder in the workspace; empty for its root")] = ""


class Environment(Part):
    """Where the workspace stands, for a package that comes from a container task."""

    workdir: Annotated[str, Field(description="absolute folder at which the workspace also appears; empty: none")] = ""
    image: Annotated[str, Field(description="image that the box runs in, by digest where it is known")] = ""
    dockerfile: Annotated[str, Field(description="path below context/ of the Dockerfile that makes the image")] = ""
    env: Annotated[dict[str, str], Field(description="variables that every command finds")] = {}


class Context(Record):
    """context/context.json. The package's own files lie in context/files/, the rest comes from resources.

    The workspace at the start is context/files/** together with each resource of kind `files` at its mount.
    """

    kind: ClassVar[str] = "context"

    files: tuple[ContextFile, ...] = ()
    resources: tuple[ResourceRef, ...] = ()
    capabilities: tuple[str, ...] = ()
    clock: Annotated[str | None, Field(description="the package's date, YYYY-MM-DD")] = None
    environment: Annotated[Environment | None, Field(description="absent: the workspace stands at /w, no image")] = None


# --- task ------------------------------------------------------------------------------------------------
class Task(Record):
    """task/task.json, beside task/instruction.md and task/contract.json."""

    kind: ClassVar[str] = "task"

    title: str
    language: str = "en"


# --- harness ---------------------------------------------------------------------------------------------
class Budget(Part):
    """What a rollout may use."""

    turns: Annotated[int, Field(ge=0)] = 30
    tokens: Annotated[int, Field(ge=0, description="prompt and completion tokens")] = 200_000
    seconds: Annotated[float, Field(ge=0)] = 300.0


class Limits(Part):
    """Limits on each command in the sandbox; `disk_bytes` and `inodes` bound the whole workspace."""

    wall_s: float = 30.0
    cpu_s: float = 20.0
    memory_bytes: int = 2 << 30
    processes: int = 64
    open_files: int = 256
    file_bytes: int = 64 << 20
    disk_bytes: int = 256 << 20
    inodes: int = 20_000
    output_bytes: int = 1 << 20


class McpServer(Part):
    """A tool server that speaks the Model Context Protocol over its standard streams, started in the sandbox."""

    name: Name
    command: Annotated[tuple[str, ...], Field(description="program and arguments; empty: only a url")] = ()
    env: dict[str, str] = {}
    url: Annotated[str, Field(description="a server in a network, which no sandbox reaches; kept as it is")] = ""


#: what a sandbox may have to give: lower-case words
Need = Annotated[str, StringConstraints(max_length=40, pattern=r"^[a-z0-9][a-z0-9-]*( [a-z0-9][a-z0-9-]*)*$")]


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    for number, name in enumerate(names):
        if name in names[:number]:
            raise PydanticCustomError("twice", "{name} is there twice", {"name": repr(name)})
    return names


Needs = Annotated[
    tuple[Need, ...], Field(max_length=20, json_schema_extra={"uniqueItems": True}), AfterValidator(_once)
]


class Harness(Record):
    """harness/harness.json: the tools offered, budgets and limits."""

    kind: ClassVar[str] = "harness"

    tools: Annotated[tuple[str, ...], Field(description="names of the tools offered")]
    budget: Budget = Budget()
    limits: Limits = Limits()
    sandbox: Annotated[str, Field(description="kind of sandbox the package asks for")] = "bubblewrap"
    network: Literal["none"] = "none"
    requires: Annotated[
        Needs | None,
        Field(description="what a sandbox has to give; one that does not is refused: image, hard memory ceiling, ..."),
    ] = None
    mcp_servers: Annotated[tuple[McpServer, ...] | None, Field(description="tool servers offered to agents")] = None


# --- verifier --------------------------------------------------------------------------------------------
class Criterion(Part):
    """One check, bound to evidence, that scores one requirement of the contract."""

    id: str
    requirement: Annotated[str, Field(description="id of the requirement it scores")]
    layer: Literal["state", "function"] = "function"
    evidence: Annotated[Literal["file", "state_difference", "message"], Field(description="what it reads")] = "file"
    paths: Annotated[tuple[str, ...], Field(description="files of the end state that it reads")] = ()
    check: Annotated[str, Field(description="file and function: checks/main.py:rows_match")]
    anchors: tuple[str, ...] = ()
    weight: Annotated[float, Field(ge=0)] = 1.0
    critical: bool = False
    progress: Annotated[bool, Field(description="may be evaluated on any intermediate tree")] = True


class Program(Part):
    """A verifier that is a program: it looks at the end state where the agent worked, and writes a reward.

    Its files stand at /tests while it runs; /logs/verifier/reward.json or reward.txt is what it says.
    """

    argv: Annotated[tuple[str, ...], Field(min_length=1, description="run in the workspace")]
    files: Annotated[str, Field(description="folder below verifier/ that appears as /tests")] = "tests"
    seconds: Annotated[float, Field(gt=0)] = 600.0
    env: dict[str, str] = {}


class Verifier(Record):
    """verifier/verifier.json, beside checks/*.py, anchors.json, reference/, cases/."""

    kind: ClassVar[str] = "verifier"

    criteria: tuple[Criterion, ...]
    pass_weight: Annotated[float, Field(ge=0, le=1, description="share of the weight a pass needs")] = 0.75
    program: Annotated[Program | None, Field(description="gives the scores of all criteria, by their ids")] = None


class Anchor(Part):
    """An expected value: the query that gives it and the value it gave."""

    id: str
    query: Query
    value: Table


class Anchors(Record):
    """verifier/anchors.json. The ids of the source blobs stand on the edges in package.json."""

    kind: ClassVar[str] = "anchors"

    anchors: tuple[Anchor, ...] = ()


class Mutation(Part):
    """A rule that turns a reference state into a negative (breaks `requirement`) or an alternative (breaks none)."""

    id: str
    requirement: Annotated[str | None, Field(description="requirement it breaks; absent for an alternative")] = None
    op: str
    path: str = ""
    arguments: dict[str, Any] = {}


class Cases(Record):
    """verifier/cases/cases.json: calibration cases. Whole alternative states lie in verifier/cases/ID/."""

    kind: ClassVar[str] = "cases"

    negatives: tuple[Mutation, ...] = ()
    alternatives: tuple[Mutation, ...] = ()
    states: Annotated[tuple[str, ...], Field(description="ids of alternative end states kept as files")] = ()


class StateFile(Part):
    path: str
    deleted: bool = False


class Reference(Record):
    """verifier/reference/reference.json: the reference end state as a change of the start state.

    The changed files lie in verifier/reference/files/. Mounted in calibration only, never for a policy.
    """

    kind: ClassVar[str] = "reference"

    changes: tuple[StateFile, ...] = ()
    final_message: str = ""
    policy: Annotated[str, Field(description="id of the policy that made it")] = ""


# --- package ---------------------------------------------------------------------------------------------
class Edge(Part):
    """`source` was built against this version of `target`."""

    source: ComponentName
    target: Annotated[str, Field(description="context, task, harness, verifier, or resources/KIND/NAME")]
    version: ObjectId
    blobs: Annotated[tuple[ObjectId, ...], Field(description="blobs that were really read")] = ()


class SourceFile(Part):
    path: str
    sha256: str


class Provenance(Part):
    """How the package came to be; enough to build it again."""

    builder: Annotated[str, Field(description="family or tool that wrote it, or `hand`")] = "hand"
    version: str = "1"
    seed: int | None = None
    config: dict[str, Scalar] = {}
    sources: tuple[SourceFile, ...] = ()
    license: str = ""


class Admission(Part):
    """The one admission test of a frozen verifier: component ids it was held on and what it saw."""

    components: dict[ComponentName, ObjectId]
    cases: int
    digest: str


class Package(Record):
    """package.json: names the package and records what each component was built against."""

    kind: ClassVar[str] = "package"

    name: Name
    title: str
    family: str | None = None
    workspace: Annotated[str, Field(description="name of the folder it was built from; clusters statistics")] = ""
    tags: Annotated[tuple[str, ...] | None, Field(description="words to select it by, beside family and level")] = None
    provenance: Provenance = Provenance()
    edges: tuple[Edge, ...] = ()
    admission: Admission | None = None


class Resource(Record):
    """resources/KIND/NAME/resource.json. Its content lies in files/ beside it."""

    kind: ClassVar[str] = "resource"

    name: Name
    type: Literal["files", "skills", "apps"] = "files"
    title: str = ""
    license: str = ""
    sources: tuple[SourceFile, ...] = ()
