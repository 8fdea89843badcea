"""Ids and names: what is allowed, and how a name becomes a path in the tree of a revision."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from rover_store.names import COMPONENTS, ComponentName, blob_id, check_name, digest, package_path

LETTER: dict[ComponentName, str] = {"context": "C", "task": "T", "harness": "H", "verifier": "V"}
BIT: dict[ComponentName, int] = {"context": 1, "task": 2, "harness": 4, "verifier": 8}

#: 40 hex digits of a git object.
ObjectId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
#: 64 hex digits: sha256 over canonical JSON, for keys of evidence.
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]

__all__ = [
    "BIT", "COMPONENTS", "LETTER", "ComponentName", "Digest", "Name", "ObjectId", "blob_id", "check_name", "digest",
    "package_path",
]  # fmt: skip
