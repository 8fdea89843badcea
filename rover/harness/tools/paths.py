"""Paths of a workspace, as a policy writes them: kept inside, never through a link, only plain files.

The working directory is the root of the workspace. Runs inside the box.
"""

from __future__ import annotations

import os
import stat

MAX_BYTES = 256 << 20


class ToolError(Exception):
    """What the tool says to the policy instead of a result."""


def resolve(path: str, *, follow: bool = True) -> str:
    """The path relative to the root, with `/`. ToolError where it leads outside, or a link at its end does.

    Absolute paths are those of ROVER_W: who works in a folder of a workspace still finds its root at `/w`.
    """
    if "\0" in path:
        raise ToolError("a path cannot hold a NUL byte")
    root = os.getcwd()
    named = os.environ.get("ROVER_W") or root
    relative = os.path.normpath(os.path.relpath(path, named) if os.path.isabs(path) else path)
    real = os.path.realpath(relative if follow else os.path.dirname(relative) or ".")
    if relative == ".." or relative.startswith("../") or not (real == root or real.startswith(root.rstrip("/") + "/")):
        raise ToolError(f"{path}: outside of the workspace")
    return relative


def read_bytes(path: str) -> bytes:
    """The bytes of a plain file of the workspace."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise ToolError(f"{path}: {_reason(error)}") from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ToolError(f"{path}: {'is a folder' if stat.S_ISDIR(status.st_mode) else 'not a plain file'}")
        if status.st_size > MAX_BYTES:
            raise ToolError(f"{path}: too large ({status.st_size} bytes)")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


def write_bytes(path: str, data: bytes) -> None:
    """Replace a file's bytes, making its folders; a link or special file at the path is refused."""
    if path == "." or path.endswith("/"):
        raise ToolError(f"{path}: is a folder")
    try:
        if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
            raise ToolError(f"{path}: {'is a folder' if os.path.isdir(path) else 'not a plain file'}")
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
    except OSError as error:
        raise ToolError(f"{path}: {_reason(error)}") from None


def remove(path: str) -> None:
    """Delete a file (or a link)."""
    try:
        os.unlink(path)
    except IsADirectoryError:
        raise ToolError(f"{path}: is a folder") from None
    except OSError as error:
        raise ToolError(f"{path}: {_reason(error)}") from None


def walk(path: str) -> list[tuple[str, int]]:
    """Every plain file below a folder with its size, sorted by path; links are listed, not followed."""
    if not os.path.isdir(path):
        raise ToolError(f"{path}: no such folder")
    found: list[tuple[str, int]] = []
    for folder, folders, files in os.walk(path):
        folders.sort()
        for name in files:
            full = os.path.normpath(os.path.join(folder, name))
            try:
                status = os.lstat(full)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                found.append((full, status.st_size))
    return sorted(found)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
