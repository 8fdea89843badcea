"""What a checked-out folder began as: `.rover-base`, at its top.

It moves with the folder, is no part of the package, and lets `commit` tell what was changed here from what was
changed in the store meanwhile.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rover_store.errors import PackageError
from rover_store.files.intake import BASE_FILE

_ID = re.compile(r"[0-9a-f]{40}")
_LARGEST = 4096


class Base(NamedTuple):
    """A version that a folder was written from or taken as.

    `tree` is the package's in the store, `files` the id of the folder's own bytes, `commit` (may be empty) the commit
    that holds the tree.
    """

    package: str
    tree: str
    files: str
    commit: str


def read(folder: Path) -> Base | None:
    """The base of a folder, None where it has none. PackageError where the file is damaged."""
    try:
        fd = os.open(folder / BASE_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _damaged(error.strerror or "cannot be read") from None
    try:
        value = json.loads(os.read(fd, _LARGEST))
        base = Base(*(value[field] for field in Base._fields))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise _damaged("is damaged") from None
    finally:
        os.close(fd)
    if not all(isinstance(v, str) for v in base) or not _ID.fullmatch(base.tree):
        raise _damaged("is damaged")
    return base


def write(folder: Path, base: Base) -> None:
    """Remember a base. A folder that cannot be written keeps the one before, which is safe."""
    scratch = folder / f"{BASE_FILE}.{os.getpid()}"
    with suppress(OSError):
        try:
            scratch.write_text(json.dumps(base._asdict(), indent=1) + "\n")
            os.replace(scratch, folder / BASE_FILE)
        finally:
            scratch.unlink(missing_ok=True)


def _damaged(reason: str) -> PackageError:
    return PackageError(BASE_FILE, "", reason, hint="--force takes the folder as it is")
