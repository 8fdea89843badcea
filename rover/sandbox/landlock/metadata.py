"""Modes and times of files, set by the supervisor for files of the box alone: Landlock does not govern them."""

from __future__ import annotations

import errno
import os
import stat
import struct
import time
from collections.abc import Callable

from rover.sandbox.landlock.notices import Listener, Notice, Refused, Service, memory, signed, text

AT_FDCWD, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH = -100, 0x100, 0x1000
UTIME_NOW, UTIME_OMIT = 0x3FFFFFFF, 0x3FFFFFFE
_BILLION = 1_000_000_000


def services(inside: Callable[[str], bool]) -> dict[str, Service]:
    """By name of the call. `inside` says whether a real path belongs to the box."""
    files = _Files(inside)
    return {
        "chmod": lambda on, n: files.chmod(on, n, AT_FDCWD, n.args[0], n.args[1], 0),
        "fchmodat": lambda on, n: files.chmod(on, n, signed(n.args[0]), n.args[1], n.args[2], 0),
        "fchmodat2": lambda on, n: files.chmod(on, n, signed(n.args[0]), n.args[1], n.args[2], n.args[3]),
        "fchmod": lambda on, n: files.chmod(on, n, signed(n.args[0]), None, n.args[1], 0),
        "utime": lambda on, n: files.times(on, n, AT_FDCWD, n.args[0], _seconds(n, n.args[1]), 0),
        "utimes": lambda on, n: files.times(on, n, AT_FDCWD, n.args[0], _micro(n, n.args[1]), 0),
        "futimesat": lambda on, n: files.times(on, n, signed(n.args[0]), n.args[1], _micro(n, n.args[2]), 0),
        "utimensat": lambda on, n: files.times(
            on, n, signed(n.args[0]), n.args[1] or None, _nano(n, n.args[2]), n.args[3]
        ),
    }


class _Files:
    def __init__(self, inside: Callable[[str], bool]) -> None:
        self._inside = inside

    def chmod(self, on: Listener, notice: Notice, at: int, path: int | None, mode: int, flags: int) -> int:
        fd = self._open(on, notice, at, path, flags)
        try:
            os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(mode) & ~(stat.S_ISUID | stat.S_ISGID))
        finally:
            os.close(fd)
        return 0

    def times(
        self, on: Listener, notice: Notice, at: int, path: int | None, wanted: tuple[int, int] | None, flags: int
    ) -> int:
        fd = self._open(on, notice, at, path, flags)
        try:
            now, info = time.time_ns(), os.stat(fd)
            asked = wanted or (-UTIME_NOW, -UTIME_NOW)
            access, change = _time(asked[0], info.st_atime_ns, now), _time(asked[1], info.st_mtime_ns, now)
            os.utime(f"/proc/self/fd/{fd}", ns=(access, change))
        finally:
            os.close(fd)
        return 0

    def _open(self, on: Listener, notice: Notice, at: int, path: int | None, flags: int) -> int:
        """The file that a call means, held by a descriptor of ours. Refused where it is none of the box's."""
        if flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH):
            raise Refused(errno.EINVAL)
        name = None if path is None else text(notice, path)
        if name == b"" and not flags & AT_EMPTY_PATH:
            raise Refused(errno.ENOENT)
        start = f"/proc/{notice.pid}/cwd" if at == AT_FDCWD else f"/proc/{notice.pid}/fd/{at}"
        try:
            if not name:
                fd = os.open(start, os.O_PATH | os.O_CLOEXEC)
            else:
                follow = os.O_NOFOLLOW if flags & AT_SYMLINK_NOFOLLOW else 0
                base = os.open(start if not name.startswith(b"/") else "/", os.O_PATH | os.O_CLOEXEC)
                try:
                    fd = os.open(name, os.O_PATH | os.O_CLOEXEC | follow, dir_fd=base)
                finally:
                    os.close(base)
        except FileNotFoundError:
            raise Refused(errno.EBADF if not name and at != AT_FDCWD else errno.ENOENT) from None
        try:
            on.valid(notice)
            if not self._inside(os.readlink(f"/proc/self/fd/{fd}")):
                raise Refused(errno.EPERM)
        except BaseException:
            os.close(fd)
            raise
        return fd


def _time(wanted: int, have: int, now: int) -> int:
    return {UTIME_NOW: now, UTIME_OMIT: have}.get(-wanted, wanted) if wanted < 0 else wanted


def _nano(notice: Notice, address: int) -> tuple[int, int] | None:
    """Two times in nanoseconds; None for now. The two special ones stand as minus their own number."""
    if not address:
        return None
    a, an, m, mn = struct.unpack("4q", _exactly(notice, address, 32))
    return _one(a, an), _one(m, mn)


def _one(seconds: int, nano: int) -> int:
    if nano in (UTIME_NOW, UTIME_OMIT):
        return -nano
    if not 0 <= nano < _BILLION or seconds < 0:
        raise Refused(errno.EINVAL)
    return seconds * _BILLION + nano


def _micro(notice: Notice, address: int) -> tuple[int, int] | None:
    if not address:
        return None
    a, am, m, mm = struct.unpack("4q", _exactly(notice, address, 32))
    return _one(a, am * 1000), _one(m, mm * 1000)


def _seconds(notice: Notice, address: int) -> tuple[int, int] | None:
    if not address:
        return None
    a, m = struct.unpack("2q", _exactly(notice, address, 16))
    return _one(a, 0), _one(m, 0)


def _exactly(notice: Notice, address: int, size: int) -> bytes:
    found = memory(notice, address, size)
    if len(found) < size:
        raise Refused(errno.EFAULT)
    return found
