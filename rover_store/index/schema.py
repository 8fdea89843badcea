"""The index's tables, defined. `index_tables` holds the same as SQL for the read path; a test compares the two.

Importing this is slow (SQLModel, SQLAlchemy): only what keeps a second database does (`mirror`).
The tables may change with any version; `index_views` has what people may rely on.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import BigInteger
from sqlalchemy import Index as SqlIndex
from sqlmodel import Field, SQLModel

#: rows lie in the tree of the key itself: half the size, and one look-up instead of two
_CLUSTERED: dict[str, Any] = {"sqlite_with_rowid": False}


def _key(**more: Any) -> Any:
    return Field(primary_key=True, sa_column_kwargs={"autoincrement": False}, **more)


class Meta(SQLModel, table=True):
    """What the index shows: version, head, evidence, refs, operations."""

    __tablename__: ClassVar[str] = "meta"

    key: str = Field(primary_key=True)
    value: str


class History(SQLModel, table=True):
    """A commit. `seq` grows from parents to children; `shown` marks the ancestors of the current head.

    `subject` is the first line of the message, `body` what follows it. `date` is empty where no calendar has it.
    """

    __tablename__: ClassVar[str] = "history"
    __table_args__ = (SqlIndex("ix_history_id", "id", unique=True),)

    seq: int = _key()
    id: str
    tree: str
    author: str
    time: int = Field(sa_type=BigInteger)
    date: str
    subject: str
    body: str | None = None
    shown: bool


class Parent(SQLModel, table=True):
    """An edge of history, by number."""

    __tablename__: ClassVar[str] = "parent"
    __table_args__ = _CLUSTERED

    child: int = _key()
    position: int = _key()
    parent: int


class Trailer(SQLModel, table=True):
    """A `Key: value` line at the end of a commit's message."""

    __tablename__: ClassVar[str] = "trailer"
    __table_args__ = (SqlIndex("ix_trailer_key", "key"), _CLUSTERED)

    seq: int = _key()
    position: int = _key()
    key: str
    value: str


class Change(SQLModel, table=True):
    """A package, component or resource that a commit changed, compared with its first parent."""

    __tablename__: ClassVar[str] = "change"
    __table_args__ = (SqlIndex("ix_change_node", "node"), _CLUSTERED)

    seq: int = _key()
    node: str = Field(primary_key=True)
    package: str
    old: str | None = None
    new: str | None = None


class Package(SQLModel, table=True):
    """A package of the current head: its versions, and what package.json says."""

    __tablename__: ClassVar[str] = "package"
    __table_args__ = _CLUSTERED

    name: str = Field(primary_key=True)
    tree: str
    title: str
    family: str
    workspace: str
    license: str
    builder: str
    seed: int | None = Field(default=None, sa_type=BigInteger)
    admitted: bool
    context: str | None = None
    task: str | None = None
    harness: str | None = None
    verifier: str | None = None


class Resource(SQLModel, table=True):
    """A resource of the current head. `name` is KIND/NAME."""

    __tablename__: ClassVar[str] = "resource"
    __table_args__ = _CLUSTERED

    name: str = Field(primary_key=True)
    kind: str
    tree: str
    title: str
    license: str


class Node(SQLModel, table=True):
    """A component or resource of the current head, at its present version."""

    __tablename__: ClassVar[str] = "node"
    __table_args__ = (SqlIndex("ix_node_package", "package"), _CLUSTERED)

    name: str = Field(primary_key=True)
    package: str
    version: str


class Edge(SQLModel, table=True):
    """`source` was built against this version of `target`."""

    __tablename__: ClassVar[str] = "edge"
    __table_args__ = (SqlIndex("ix_edge_target", "target"), SqlIndex("ix_edge_package", "package"), _CLUSTERED)

    source: str = Field(primary_key=True)
    target: str = Field(primary_key=True)
    version: str
    package: str


class Rollout(SQLModel, table=True):
    """A rollout of the evidence: what it depends on, and how it ended."""

    __tablename__: ClassVar[str] = "rollout"
    __table_args__ = (SqlIndex("ix_rollout_package", "package"), SqlIndex("ix_rollout_context", "context"), _CLUSTERED)

    id: str = Field(primary_key=True)
    package: str
    context: str
    task: str
    harness: str
    policy: str
    seed: int | None = Field(default=None, sa_type=BigInteger)
    runtime: str
    ended: str
    error: str
    turns: int
    prompt_tokens: int = Field(sa_type=BigInteger)
    completion_tokens: int = Field(sa_type=BigInteger)
    pruned: bool


class Verdict(SQLModel, table=True):
    """A verdict of the evidence."""

    __tablename__: ClassVar[str] = "verdict"
    __table_args__ = (SqlIndex("ix_verdict_verifier", "verifier"), _CLUSTERED)

    rollout: str = Field(primary_key=True)
    verifier: str = Field(primary_key=True)
    outcome: str
    score: float | None = None
    gate: int | None = None
    reason: str


class Score(SQLModel, table=True):
    """What one criterion found in a rollout."""

    __tablename__: ClassVar[str] = "score"
    __table_args__ = _CLUSTERED

    rollout: str = Field(primary_key=True)
    verifier: str = Field(primary_key=True)
    position: int = _key()
    criterion: str
    requirement: str
    score: float | None = None
    weight: float | None = None
    critical: bool
    status: str
    reason: str


class Ref(SQLModel, table=True):
    """A branch, tag or case, and the commit that it names."""

    __tablename__: ClassVar[str] = "ref"
    __table_args__ = _CLUSTERED

    kind: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    target: str
    current: bool


class Operation(SQLModel, table=True):
    """An entry of the operation log; numbers grow with time."""

    __tablename__: ClassVar[str] = "operation"
    __table_args__ = (SqlIndex("ix_operation_id", "id", unique=True),)

    number: int = _key()
    id: str
    command: str
    time: int = Field(sa_type=BigInteger)
    date: str


class Move(SQLModel, table=True):
    """A ref that an operation moved."""

    __tablename__: ClassVar[str] = "move"
    __table_args__ = _CLUSTERED

    operation: int = _key()
    ref: str = Field(primary_key=True)
    old: str | None = None
    new: str | None = None


TABLES: tuple[type[SQLModel], ...] = (
    Meta, History, Parent, Trailer, Change, Package, Resource, Node, Edge, Rollout, Verdict, Score, Ref, Operation,
    Move,
)  # fmt: skip
