"""Records of a merge that waits for a person: what is in conflict, and what was chosen."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rover_store.ids import ObjectId
from rover_store.records.base import Part, Record

Choice = Literal["base", "ours", "theirs", "file"]


class Side(Part):
    """What one side has: an object of the store, or a value of a record. Neither: it has nothing there."""

    id: Annotated[ObjectId | None, Field(description="tree of a package or resource, or blob of a file")] = None
    mode: Annotated[str | None, Field(description="git's mode of the file, octal")] = None
    value: Annotated[str | None, Field(description="JSON text of the value of a field")] = None


class Conflict(Part):
    """One place that both sides changed differently."""

    id: Annotated[str, Field(description="c1, c2, ... within the merge")] = ""
    kind: Annotated[
        Literal["package", "resource", "file", "text", "field"],
        Field(description="what is in conflict: the whole of it, a file that has no lines, lines, a field of a record"),
    ]
    package: Annotated[str, Field(description="empty for what belongs to no package")] = ""
    component: Annotated[str, Field(description="component in which the file lies; empty beside the four")] = ""
    resource: Annotated[str, Field(description="KIND/NAME; empty for what belongs to no resource")] = ""
    file: Annotated[str, Field(description="path below the package or resource, or in the tree")] = ""
    field: Annotated[tuple[str, ...], Field(description="keys, and ids of members of an array")] = ()
    base: Side = Side()
    ours: Side = Side()
    theirs: Side = Side()
    reason: str
    choice: Annotated[Choice | None, Field(description="what a person chose; `file`: as it lies in the folder")] = None


class Merge(Record):
    """merge.json of a merge that is not finished."""

    kind: ClassVar[str] = "merge"

    into: Annotated[str, Field(description="branch that will move")]
    other: Annotated[str, Field(description="what is merged, as it was named")]
    ours: ObjectId
    theirs: ObjectId
    bases: tuple[ObjectId, ...] = ()
    message: str
    conflicts: tuple[Conflict, ...]
