"""The folders for scratch files: every job finds them empty, and a living command finds its own again."""

from __future__ import annotations

import contextlib
import os

from rover.sandbox.docker.inside.removal import empty

FOLDERS = ("/tmp", "/dev/shm")
HIDDEN = ".held"


def empty_all() -> None:
    for folder in FOLDERS:
        empty(folder, keep=HIDDEN)


def hide_all() -> None:
    """Move all out of sight, into a folder that no job can open."""
    for folder in FOLDERS:
        if names := os.listdir(folder):
            with contextlib.suppress(OSError):  # no room even for a folder: the next job sees what is there
                os.mkdir(f"{folder}/{HIDDEN}", 0o700)
                for name in names:
                    os.rename(f"{folder}/{name}", f"{folder}/{HIDDEN}/{name}")


def show_all() -> None:
    for folder in FOLDERS:
        hidden = f"{folder}/{HIDDEN}"
        if os.path.isdir(hidden):
            for name in os.listdir(hidden):
                os.rename(f"{hidden}/{name}", f"{folder}/{name}")
            os.rmdir(hidden)
