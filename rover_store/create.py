"""Making the two repositories of a new store. Built beside and renamed, so that half a store never exists."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from rover_store import config
from rover_store.errors import StoreError, UsageError
from rover_store.packs import fsync_folder
from rover_store.refs import SEALED

# gc.auto: git must never pack or prune by itself. hideRefs: no clone or fetch transfers the sealed audits.
_CONFIG = f"""[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
\tlogallrefupdates = false
[gc]
\tauto = 0
\tautoDetach = false
[receive]
\tautogc = false
[transfer]
\thideRefs = {SEALED}
"""


def create(folder: Path) -> None:
    """Make `.rover` in a folder, and the folder if need be."""
    target = folder / config.FOLDER
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} exists already", hint="the store is there; use it, or choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = folder / f"{config.FOLDER}.tmp-{os.getpid()}"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        try:
            bare(scratch / "store.git")
            bare(scratch / "evidence.git")
            alternates = scratch / "evidence.git" / "objects" / "info" / "alternates"
            alternates.write_text("../../store.git/objects\n")
            (scratch / ".gitignore").write_text("*\n")  # a project that is itself a git repository ignores the store
            (scratch / "config.toml").write_text(config.text())
            os.rename(scratch, target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        fsync_folder(folder)
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"{folder}: not a folder") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise UsageError(f"{folder}: {error.strerror}") from None
        raise StoreError(f"cannot make a store in {folder}: {error.strerror}") from None


def bare(git: Path) -> None:
    """An empty bare repository that never packs or prunes by itself."""
    for name in ("objects/pack", "objects/info", "refs/heads", "refs/tags", "info"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "config").write_text(_CONFIG)
    (git / "description").write_text("A rover store.\n")
