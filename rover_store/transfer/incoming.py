"""A repository beside the store in which what comes over a network waits until it is checked.

It borrows the store's objects, so that only what is new travels; its packs are moved into the store in one step.
If the transfer is cut short nothing of it is in the store, and the next one removes what is left.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rover_store.create import bare
from rover_store.lock import RepositoryLock
from rover_store.packs import fsync_folder
from rover_store.transfer import wire
from rover_store.transfer.remotes import Place

if TYPE_CHECKING:
    from rover_store.store import Store

_PREFIX = "incoming-"


@contextmanager
def incoming(store: Store, where: Place, specs: list[str]) -> Iterator[Path]:
    """Fetch refs of a place into a repository that lasts as long as the block."""
    clean(store.folder, _PREFIX)
    git = store.folder / f"{_PREFIX}{os.getpid()}"
    shutil.rmtree(git, ignore_errors=True)
    try:
        bare(git)
        borrowed = [str(store.folder / name / "objects") for name in ("store.git", "evidence.git")]
        (git / "objects" / "info" / "alternates").write_text("".join(f"{path}\n" for path in borrowed))
        wire.fetch(git, where, specs)
        yield git
    finally:
        shutil.rmtree(git, ignore_errors=True)


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


def clean(folder: Path, prefix: str) -> None:
    """Remove what killed transfers left: folders named after processes that are no more."""
    for path in folder.glob(f"{prefix}*"):
        pid = path.name.removeprefix(prefix)
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(path, ignore_errors=True)
