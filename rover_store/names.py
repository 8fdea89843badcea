"""Names and digests without pydantic, so that the read verbs start fast. `ids` offers them beside the types."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Literal

from rover_store.errors import PackageError

ComponentName = Literal["context", "task", "harness", "verifier"]
COMPONENTS: tuple[ComponentName, ...] = ("context", "task", "harness", "verifier")
RESOURCE_KINDS = ("files", "skills", "apps")

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


def digest(value: Any) -> str:
    """sha256 of canonical JSON (sorted keys, no spaces, no NaN): the key of a piece of evidence."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def blob_id(data: bytes) -> str:
    """The git id of a blob with these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def check_name(name: str, file: str = "package.json", field: str = "name") -> str:
    """Return `name`, or raise PackageError: lower case letters, digits, `.`, `_`, `-`, at most 100."""
    if not _NAME.fullmatch(name) or ".." in name or name.endswith(".lock"):
        raise PackageError(file, field, f"{name!r} is not a package name (a-z, 0-9, '.', '_', '-'; at most 100)")
    return name


def package_path(name: str) -> str:
    """Where a package lies in the tree of a revision: packages/a/3/f/NAME, a3f from sha256(name)."""
    h = hashlib.sha256(name.encode()).hexdigest()
    return f"packages/{h[0]}/{h[1]}/{h[2]}/{name}"


def rollout_path(rollout: str) -> str:
    """Where a rollout lies in the tree of the evidence: rollouts/a/3/f/ID, a3f its first digits."""
    return f"rollouts/{rollout[0]}/{rollout[1]}/{rollout[2]}/{rollout}"
