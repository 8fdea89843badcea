"""Where boxes lie on the host: one private folder a box, removed when it closes, else by the next keeper.

    BASE/rover-UID/N/owner    the keeper that made it, as "pid start-time"
                     w/       the workspace
                     tmp/     TMPDIR and HOME of a command, made afresh for each
                     v/       a virtual environment of links: the interpreter and the libraries

N is the lowest number that is free, so that one box after another lies at the same path.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time

#: A folder in memory comes first: a snapshot reads the workspace.
BASES = ("/dev/shm", "/tmp", "/var/tmp")
ROOM = 256 << 20
MOST = 10_000
#: seconds in which a folder may have no owner yet
YOUNG_S = 60.0


def base() -> str:
    """The first place with room where programs may run. OSError where there is none."""
    for folder in (*BASES, os.environ.get("TMPDIR", "")):
        if not folder or not os.access(folder, os.W_OK | os.X_OK):
            continue
        found = os.statvfs(folder)
        if not found.f_flag & os.ST_NOEXEC and found.f_bavail * found.f_frsize >= ROOM:
            return folder
    raise OSError(f"no folder for workspaces: {', '.join(BASES)} lack 256 MB of room, or forbid programs")


def claim() -> str:
    """Make a box's folder. OSError where somebody else holds the place of all of them."""
    root = f"{base()}/rover-{os.geteuid()}"
    with contextlib.suppress(FileExistsError):
        os.mkdir(root, 0o700)
    info = os.lstat(root)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o077:
        raise OSError(f"{root} is no private folder of this user; remove it")
    for number in range(MOST):
        with contextlib.suppress(FileExistsError):
            os.mkdir(f"{root}/{number}", 0o700)
            with open(f"{root}/{number}/owner", "w") as stream:
                stream.write(mark(os.getpid()))
            return f"{root}/{number}"
    raise OSError(f"{root} is full")


def mark(pid: int) -> str:
    """A process, told apart from a later one of the same number."""
    with open(f"/proc/{pid}/stat", "rb") as stream:
        fields = stream.read(4096).rpartition(b")")[2].split()
    if fields[0] in (b"Z", b"X"):
        raise ProcessLookupError(pid, "it is dead")
    return f"{pid} {int(fields[19])}"


def alive(owner: str) -> bool:
    try:
        return mark(int(owner.split()[0])) == owner
    except (OSError, ValueError, IndexError):
        return False


def reap() -> None:
    """Remove the folders of owners that are gone."""
    for place in (*BASES, os.environ.get("TMPDIR", "")):
        root = f"{place}/rover-{os.geteuid()}"
        try:
            if not place or os.lstat(root).st_uid != os.geteuid():
                continue
            names = [name for name in os.listdir(root) if name.isdigit()]
        except OSError:
            continue
        for name in names:
            if _is_left(f"{root}/{name}"):
                remove(f"{root}/{name}")
        with contextlib.suppress(OSError):
            os.rmdir(root)


def _is_left(folder: str) -> bool:
    try:
        with open(f"{folder}/owner") as stream:
            return not alive(stream.read())
    except FileNotFoundError:
        with contextlib.suppress(OSError):
            return time.time() - os.stat(folder).st_mtime > YOUNG_S
    except OSError:
        pass
    return False


def remove(folder: str) -> None:
    """Remove a folder that hostile commands may have made unreadable, or deeper than any path or stack: what lies in
    its folders is moved up, never descended into."""
    with contextlib.suppress(OSError):
        empty(folder)
        os.rmdir(folder)


def empty(folder: str) -> None:
    """Remove all that a folder holds."""
    os.chmod(folder, 0o700)
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    number = 0
    try:
        while names := os.listdir(root):
            for name in names:
                if not _is_folder(name, root):
                    os.unlink(name, dir_fd=root)
                    continue
                inner = _writable(name, root)
                try:
                    for below in os.listdir(inner):
                        if _is_folder(below, inner):
                            os.close(_writable(below, inner))  # a folder can be moved by who may write to it
                            number += 1
                            os.rename(below, f".moved-{os.getpid()}-{number}", src_dir_fd=inner, dst_dir_fd=root)
                        else:
                            os.unlink(below, dir_fd=inner)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=root)
    finally:
        os.close(root)


def _is_folder(name: str, at: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)


class Pry:
    """Opens what this user owns even where its mode forbids it. A folder's mode is put back when it is closed, since
    what lies in it can only be reached while it is open to its owner; a file's at once."""

    def __init__(self) -> None:
        self._changed: dict[int, int] = {}  # descriptor of a folder -> its mode

    def open(self, name: str | bytes, flags: int, at: int | None = None) -> int:
        try:
            fd = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        except PermissionError:
            return self._open_up(name, flags, at)
        if flags & os.O_DIRECTORY and os.fstat(fd).st_mode & 0o500 != 0o500:
            os.close(fd)
            return self._open_up(name, flags, at)
        return fd

    def close(self, fd: int) -> None:
        mode = self._changed.pop(fd, None)
        try:
            if mode is not None:
                os.fchmod(fd, mode)
        finally:
            os.close(fd)

    def _open_up(self, name: str | bytes, flags: int, at: int | None) -> int:
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        try:
            info = os.stat(handle)
            if stat.S_ISLNK(info.st_mode):
                raise OSError(errno.ELOOP, "a link")
            path, mode = f"/proc/self/fd/{handle}", stat.S_IMODE(info.st_mode)
            os.chmod(path, mode | 0o700)
            fd = -1
            try:
                fd = os.open(path, (flags & ~os.O_NOFOLLOW) | os.O_CLOEXEC)
            finally:
                if fd >= 0 and stat.S_ISDIR(info.st_mode):
                    self._changed[fd] = mode
                else:
                    os.chmod(path, mode)
            return fd
        finally:
            os.close(handle)


def _writable(name: str, at: int) -> int:
    """A folder, opened for reading and made writable. Nothing else runs here, so it is no link by now."""
    if os.stat(name, dir_fd=at, follow_symlinks=False).st_mode & 0o700 != 0o700:
        os.chmod(name, 0o700, dir_fd=at)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
