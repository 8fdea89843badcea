"""Where a file may be written: over a file or nothing, never over a device, and not into the store."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rover_store.errors import UsageError


def check_output(path: Path, store: Path) -> None:
    """UsageError where a file that is renamed into place at `path` would take that of something else.

    `store` is the store's own folder.
    """
    if path.name in ("", ".."):
        raise UsageError(f"{path}: names no file")
    check_outside(path, store)
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}")
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(kind):
        raise UsageError(f"{path}: is there, and is no plain file", hint="name another file")


def write_output(path: Path, data: bytes) -> None:
    """Write a file that somebody asked for. OSError names it, also where the disk is full."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def check_outside(path: Path, store: Path) -> None:
    """UsageError for a path in the store's own folder."""
    whole, own = Path(os.path.realpath(path)), Path(os.path.realpath(store))
    if whole == own or own in whole.parents:
        raise UsageError(f"{path}: lies in the store", hint="name a place outside of .rover")
