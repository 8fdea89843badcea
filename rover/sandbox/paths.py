"""Which paths a start state may hold."""

from __future__ import annotations

import os
from collections.abc import Iterable

from rover_store.errors import SandboxError


def check_paths(paths: Iterable[str]) -> None:
    """SandboxError for a path that does not stay inside the workspace or that no file system can hold."""
    for path in paths:
        parts = path.split("/")
        if "\0" in path or any(part in ("", ".", "..") or len(os.fsencode(part)) > 255 for part in parts):
            raise SandboxError(f"not a path of a workspace: {path!r}")
