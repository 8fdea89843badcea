"""Removing what commands left, however deep and whatever its modes. Nothing else runs meanwhile."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable


def empty(folder: str, keep: str = "") -> None:
    """Remove all that a folder holds, but for the name `keep`. A tree is taken apart from the top: a path may be
    longer than the kernel takes, and more levels deep than there are descriptors."""
    with os.scandir(folder) as items:
        names = [item.name for item in items if item.name != keep]
    number = 0
    while names:
        name = names.pop()
        path = f"{folder}/{name}"
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)
            continue
        while True:  # its own folders become folders of the top
            inner = _move_folders(path, folder, number)
            names += inner
            number += len(inner) + 1
            try:
                os.rmdir(path)
                break
            except OSError:
                number += 1000  # a name was taken; try others


def fresh_folder(folder: str, taken: Iterable[str] = ()) -> str:
    """A new empty folder that only the supervisor may enter, of a name that is neither there nor taken."""
    taken, number = set(taken), 0
    while True:
        if (name := f".rover-{number}") not in taken:
            with contextlib.suppress(FileExistsError):
                os.mkdir(path := f"{folder}/{name}", 0o700)
                return path
        number += 1


def remove(path: str, aside: str) -> None:
    """Remove a file or a folder; `aside` is an empty folder of the same file system."""
    if stat.S_ISDIR(os.lstat(path).st_mode):
        os.rename(path, f"{aside}/x")
        empty(aside)
    else:
        os.unlink(path)


def _move_folders(path: str, top: str, number: int) -> list[str]:
    moved: list[str] = []
    with os.scandir(path) as items:
        entries = [(item.name, item.is_dir(follow_symlinks=False)) for item in items]
    for name, is_folder in entries:
        if not is_folder:
            os.unlink(f"{path}/{name}")
            continue
        target = f".{number + len(moved)}"
        if os.path.lexists(f"{top}/{target}"):
            continue  # the next round takes it, under another name
        os.rename(f"{path}/{name}", f"{top}/{target}")
        moved.append(target)
    return moved
