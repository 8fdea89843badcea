"""The index's tables, defined. `index_tables` holds the same as SQL for the read path; a test compares the two.

Importing this is slow (SQLModel, SQLAlchemy): only what copies the index into another database does.
"""

from __future__ import annotations

from typing import ClassVar

from sqlalchemy import Index as SqlIndex
from sqlmodel import Field, SQLModel, create_engine, insert

from rover_store.index import Index


class Meta(SQLModel, table=True):
    """What the index shows: version, head, evidence."""

    __tablename__: ClassVar[str] = "meta"

    key: str = Field(primary_key=True)
    value: str


class History(SQLModel, table=True):
    """A commit. `seq` grows from parents to children; `shown` marks the ancestors of the current head."""

    __tablename__: ClassVar[str] = "history"
    __table_args__ = (SqlIndex("ix_history_id", "id", unique=True),)

    seq: int | None = Field(default=None, primary_key=True)
    id: str
    tree: str
    author: str
    time: int
    message: str
    shown: bool


class Parent(SQLModel, table=True):
    """An edge of history, by number."""

    __tablename__: ClassVar[str] = "parent"

    child: int = Field(primary_key=True)
    position: int = Field(primary_key=True)
    parent: int


class Change(SQLModel, table=True):
    """A package, component or resource that a commit changed, compared with its first parent."""

    __tablename__: ClassVar[str] = "change"

    seq: int = Field(primary_key=True)
    node: str = Field(primary_key=True, index=True)
    package: str = Field(index=True)
    old: str | None = None
    new: str | None = None


class Package(SQLModel, table=True):
    """A package of the current head."""

    __tablename__: ClassVar[str] = "package"

    name: str = Field(primary_key=True)
    tree: str
    title: str
    family: str
    workspace: str


class Node(SQLModel, table=True):
    """A component or resource of the current head, at its present version."""

    __tablename__: ClassVar[str] = "node"

    name: str = Field(primary_key=True)
    package: str = Field(index=True)
    version: str


class Edge(SQLModel, table=True):
    """`source` was built against this version of `target`."""

    __tablename__: ClassVar[str] = "edge"

    source: str = Field(primary_key=True)
    target: str = Field(primary_key=True, index=True)
    version: str
    package: str = Field(index=True)


class Rollout(SQLModel, table=True):
    """A rollout of the evidence, by what it depends on."""

    __tablename__: ClassVar[str] = "rollout"

    id: str = Field(primary_key=True)
    package: str = Field(index=True)
    context: str = Field(index=True)
    task: str
    harness: str
    policy: str
    seed: int
    end: str


class Verdict(SQLModel, table=True):
    """A verdict of the evidence."""

    __tablename__: ClassVar[str] = "verdict"

    rollout: str = Field(primary_key=True)
    verifier: str = Field(primary_key=True, index=True)
    outcome: str
    score: float | None = None


TABLES: tuple[type[SQLModel], ...] = (Meta, History, Parent, Change, Package, Node, Edge, Rollout, Verdict)


def export(index: Index, url: str) -> dict[str, int]:
    """Copy the index into any database that SQLAlchemy reaches, replacing its tables. Returns rows by table."""
    engine = create_engine(url)
    counts = {}
    tables = [model.metadata.tables[str(model.__tablename__)] for model in TABLES]
    with engine.begin() as connection:
        SQLModel.metadata.drop_all(connection, tables)
        SQLModel.metadata.create_all(connection, tables)
        for table in tables:
            names = [c.name for c in table.columns]
            columns = ", ".join(f'"{name}"' for name in names)
            sql = f'SELECT {columns} FROM "{table.name}"'
            rows = index.ask(lambda db, sql=sql: db.execute(sql).fetchall())  # type: ignore[misc]
            if rows:
                connection.execute(insert(table), [dict(zip(names, row, strict=True)) for row in rows])
            counts[table.name] = len(rows)
    engine.dispose()
    return counts
