"""The folders for scratch files: every job finds them empty, and a living command finds its own again."""

from __future__ import annotations

import contextlib
import os

from rover.sandbox.docker.inside.removal import empty, fresh_folder

FOLDERS = ("/tmp", "/dev/shm")


class Scratch:
    """What lies in them, and what is out of sight."""

    def __init__(self) -> None:
        self._hidden: dict[str, str] = {}  # folder -> where its files are meanwhile

    def empty(self) -> None:
        """Remove all but what is hidden."""
        for folder in FOLDERS:
            empty(folder, keep=os.path.basename(self._hidden.get(folder, "")))

    def hide(self) -> None:
        """Move all out of sight, into a folder that no job can open."""
        for folder in FOLDERS:
            if names := os.listdir(folder):
                with contextlib.suppress(OSError):  # no room even for a folder: the next job sees what is there
                    hidden = self._hidden[folder] = fresh_folder(folder, names)
                    for name in names:
                        os.rename(f"{folder}/{name}", f"{hidden}/{name}")

    def show(self) -> None:
        """Bring it back; what others left is gone."""
        for folder, hidden in self._hidden.items():
            for name in os.listdir(hidden):
                os.rename(f"{hidden}/{name}", f"{folder}/{name}")
            os.rmdir(hidden)
        self._hidden = {}
