"""A process by its number: what it does now, and a signal to it."""

from __future__ import annotations

import contextlib
import os


def send(pid: int, number: int) -> None:
    """A signal; nothing is said where the process is gone, or is nobody's to signal."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def state(pid: int) -> bytes:
    """One letter; empty where the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return stream.read(512).rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return b""
