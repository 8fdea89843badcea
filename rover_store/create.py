"""Making the two repositories of a new store. Built beside and renamed, so that half a store never exists."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from rover_store import config
from rover_store.durable import write_files
from rover_store.errors import StoreError, UsageError
from rover_store.packs import fsync_folder
from rover_store.refs import SEALED
from rover_store.scratch import scratch

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
    """Make `.rover` in a folder, and the folder if need be. Of several at once one makes it; the others are told."""
    target = folder / config.FOLDER
    if target.exists() or target.is_symlink():
        raise _Exists(target)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        made = scratch(folder, f"{config.FOLDER}.tmp-")
        made.mkdir()
        try:
            bare(made / "store.git")
            bare(made / "evidence.git")
            _write(made / "evidence.git/objects/info/alternates", "../../store.git/objects\n")
            _write(made / ".gitignore", "*\n")  # a project that is itself a git repository ignores the store
            _write(made / "config.toml", config.text())
            for inner, _, _ in os.walk(made):
                fsync_folder(Path(inner))
            os.rename(made, target)
        finally:
            shutil.rmtree(made, ignore_errors=True)
        fsync_folder(folder)
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"{folder}: not a folder") from None
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST) and target.is_dir():
            raise _Exists(target) from None
        if error.errno == errno.ENAMETOOLONG:
            raise UsageError(f"{folder}: {error.strerror}") from None
        raise StoreError(f"cannot make a store in {folder}: {error.strerror}") from None


def bare(git: Path) -> None:
    """An empty bare repository that never packs or prunes by itself."""
    for name in ("objects/pack", "objects/info", "refs/heads", "refs/tags", "refs/rover", "info"):
        (git / name).mkdir(parents=True)
    _write(git / "HEAD", "ref: refs/heads/main\n")
    _write(git / "config", _CONFIG)
    _write(git / "description", "A rover store.\n")


class _Exists(UsageError):
    def __init__(self, target: Path) -> None:
        hint = "the store is there; use it, or choose another folder"
        super().__init__(f"{target} exists already", hint=hint)


def _write(path: Path, text: str) -> None:
    path.touch()
    write_files([(path, text)])
