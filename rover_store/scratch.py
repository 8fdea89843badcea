"""Folders in which something is made before it is renamed into place: named after who makes them, so that what a
killed process left is known and removed.
"""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path


def scratch(folder: Path, prefix: str) -> Path:
    """A name in a folder that no other process or thread uses; nothing is there yet. What killed ones left goes."""
    for left in folder.glob(f"{prefix}*"):
        pid = left.name.removeprefix(prefix).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists() and Path("/proc/self").exists():
            shutil.rmtree(left, ignore_errors=True)
    found = folder / f"{prefix}{os.getpid()}-{threading.get_ident()}"
    shutil.rmtree(found, ignore_errors=True)
    return found
