"""`rover import atif`: documents of trajectories, in a file or anywhere below a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rover.port.atif import model as atif
from rover.port.protocol import Found, Refused, Replayable, Replayed, Wanted
from rover_store.errors import PackageError, UsageError

if TYPE_CHECKING:
    from rover.rollout.engine import Engine
    from rover_store.store import Store

OPTIONS = {"package": "the package that it is played on"}
#: files of a folder that are looked at
MOST_FILES = 100_000


class AtifImporter:
    """A way in for what agents did. Every document is read before the first is played."""

    kind = "atif"

    def read(self, path: Path, wanted: Wanted) -> Iterable[Found]:
        """The documents, in the order of their paths."""
        unknown = sorted(set(wanted.options) - set(OPTIONS))
        if unknown:
            raise UsageError(f"atif has no option {unknown[0]!r}", hint=f"options: {', '.join(OPTIONS)}")
        package = wanted.options.get("package", "")
        count = 0
        for file, name in _files(path):
            if not fnmatchcase(name, wanted.pattern) or (wanted.limit and count >= wanted.limit):
                continue
            count += 1
            try:
                atif.read(file, name)
            except PackageError as error:
                yield Refused(name, "", error.field, error.reason)
            else:
                yield Replayable(name, partial(_replay, file, name, package))


def _replay(file: Path, name: str, package: str, store: Store, engine: Engine) -> Replayed:
    from rover.port.atif.replay import replay

    return replay(store, engine, atif.read(file, name), name, package)


def _files(path: Path) -> Iterator[tuple[Path, str]]:
    """JSON files with their names; links are not followed."""
    if not path.is_dir():
        yield path, path.name
        return
    looked = 0
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            looked += 1
            if looked > MOST_FILES:
                raise PackageError(str(path), "", f"holds more than {MOST_FILES} files")
            file = Path(folder, name)
            if name.endswith(".json") and not file.is_symlink():
                yield file, file.relative_to(path).as_posix()
