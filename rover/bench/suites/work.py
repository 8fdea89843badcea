"""The work folder of a suite that is being made: finished pieces, each a file that is whole or not there."""

from __future__ import annotations

import os
from pathlib import Path


def keep(path: Path, data: bytes) -> None:
    """Write a file at once: a kill leaves the whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    scratch.write_bytes(data)
    os.replace(scratch, path)
