"""What a release holds: release.json, and one line of manifest.jsonl for each package and resource."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rover_store.ids import ComponentName, Digest, ObjectId
from rover_store.records.base import Record


class ReleaseEntry(Record):
    """One line of manifest.jsonl: a package with the ids of its components, or a resource."""

    kind: ClassVar[str] = "release_entry"

    type: Literal["package", "resource"]
    name: Annotated[str, Field(description="name of the package, or KIND/NAME of the resource")]
    tree: ObjectId
    components: dict[ComponentName, ObjectId] = {}
    family: str = ""
    license: Annotated[str, Field(description="as the record states it; empty where it states none")] = ""
    admitted: Annotated[bool | None, Field(description="whether it was admitted at these components")] = None


class Release(Record):
    """release.json: what was released, by whom, and the checksum of the manifest beside it."""

    kind: ClassVar[str] = "release"

    tag: str
    commit: ObjectId
    tree: Annotated[ObjectId, Field(description="tree of the commit")]
    signed_off_by: Annotated[str, Field(description="Name <mail>")]
    packages: int
    resources: int
    families: Annotated[dict[str, int], Field(description="family -> packages")] = {}
    licenses: Annotated[dict[str, int], Field(description="licence -> packages and resources")] = {}
    unlicensed: Annotated[int, Field(description="packages and resources that state no licence")] = 0
    allowed: Annotated[dict[str, int], Field(description="what would have been refused -> packages")] = {}
    sha256: Annotated[Digest, Field(description="of manifest.jsonl: lines sorted by their bytes")]
