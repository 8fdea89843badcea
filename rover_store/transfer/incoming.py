"""A repository beside the store in which what comes over a network waits until it is checked.

It borrows objects of the store, so that only what is new travels; its packs are moved into the store in one step.
If the transfer is cut short nothing of it is in the store, and the next one removes what is left.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from rover_store.create import bare
from rover_store.lock import RepositoryLock
from rover_store.packs import fsync_folder
from rover_store.scratch import scratch
from rover_store.transfer import wire
from rover_store.transfer.remotes import Place

if TYPE_CHECKING:
    from rover_store.store import Store

#: several may wait in one process
_numbers = count(1)


@contextmanager
def incoming(store: Store, where: Place, specs: list[str], borrow: tuple[str, ...]) -> Iterator[Path]:
    """Fetch refs of a place into a repository that lasts as long as the block.

    `borrow` names the repositories whose objects need not travel. For packages that is store.git alone: what only the
    evidence holds, it does not see.
    """
    git = fresh(store)
    try:
        bare(git)
        borrowed = "".join(f"{store.folder / name / 'objects'}\n" for name in borrow)
        (git / "objects" / "info" / "alternates").write_text(borrowed)
        wire.fetch(git, where, specs)
        yield git
    finally:
        shutil.rmtree(git, ignore_errors=True)


def fresh(store: Store) -> Path:
    """A name in the store for a repository to come, another one at each call; nothing is there yet."""
    made = scratch(store.folder, "incoming-")
    return made.with_name(f"{made.name}-{next(_numbers)}")


def adopt(git: Path, target: Path, lock: RepositoryLock) -> int:
    """Move the packs of a repository into another one. Only under its lock. Returns how many."""
    source, folder = git / "objects" / "pack", target / "objects" / "pack"
    names = sorted(path.stem for path in source.glob("pack-*.idx"))
    for name in names:
        for ending in (".pack", ".idx"):
            _durable(source / f"{name}{ending}")
        if (folder / f"{name}.idx").exists():
            continue
        lock.write(f"pack {name}")
        for ending in (".pack", ".idx"):  # a pack without its index is invisible, and recovery removes it
            os.rename(source / f"{name}{ending}", folder / f"{name}{ending}")
    fsync_folder(folder)
    return len(names)


def _durable(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
