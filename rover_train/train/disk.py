"""How a run's folder is written: whole files, flushed to the disk, that appear under their name at once.

Every step is a method, so that tests can fail or kill at each of them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rover_train.train.errors import DiskError

Filler = Callable[[IO[bytes]], object]


class Disk:
    """The real one."""

    def write(self, path: Path, content: bytes | Filler) -> None:
        """A file with this content, on the disk when this returns."""
        with open(path, "wb") as file:
            file.write(content) if isinstance(content, bytes) else content(file)
            file.flush()
            os.fsync(file.fileno())

    def sync(self, path: Path) -> None:
        """Flush a file or folder that somebody else wrote."""
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file or folder its name, for good."""
        os.replace(source, target)
        self.sync(target.parent)

    def remove(self, folder: Path) -> None:
        """A folder and all below it."""
        shutil.rmtree(folder)

    def replace(self, path: Path, content: bytes) -> None:
        """A file that has its old content or the new one, never a part."""
        beside = path.with_name(f".{path.name}.tmp")
        self.write(beside, content)
        self.rename(beside, path)


@contextmanager
def refusals(place: Path, *, hint: str = "") -> Iterator[None]:
    """What the disk refuses inside becomes a DiskError that names the place. Libraries wrap a full disk in errors of
    their own; what is none of the disk's stays what it is."""
    try:
        yield
    except OSError as error:
        raise DiskError(place, f"not written: {error.strerror or error}", hint=hint) from error
    except Exception as error:
        told = " ".join(str(error).split())
        if type(error).__name__ == "SafetensorError" or "unexpected pos" in told or "failed writing" in told:
            raise DiskError(place, f"not written: {told[:160]}", hint=hint) from error
        raise
