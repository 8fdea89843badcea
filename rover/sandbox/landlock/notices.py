"""Questions of the filter, answered by the supervisor: what names a file or an address, which no filter can read.

A call is never let through: the supervisor reads its arguments, does what was asked itself, on a file that it has
opened and found inside the box, and hands back the outcome. So nothing that the caller changes meanwhile matters.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
from collections.abc import Callable
from typing import NamedTuple

RECEIVE, SEND, VALID, ADD_FD = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
SET_FLAGS = 0x40082104
_NOTICE = struct.Struct("QIIiIQ6Q")
_ANSWER = struct.Struct("QqiI")
_ADD = struct.Struct("QIIII")
SET_FD, SEND_FD = 1, 2
CONTINUE = 1
PATH_MAX = 4096


class Notice(NamedTuple):
    """One call that waits: who made it, its name, its arguments."""

    id: int
    pid: int
    name: str
    args: tuple[int, ...]


class Refused(Exception):  # an answer, not an error of ours
    """What the caller gets: the number of an error."""

    def __init__(self, number: int) -> None:
        super().__init__(errno.errorcode.get(number, str(number)))
        self.number = number


class Passed(Exception):  # as it came
    """The call goes on as it came. Only where the kernel decides by itself what it may do."""


class Answered(Exception):  # nothing is left to say
    """The caller has its answer already."""


#: does what a call asks, and gives its return value
Service = Callable[["Listener", Notice], int]


class Listener:
    """The questions of one job. `services` by the name of the call; whoever is not named is refused."""

    def __init__(self, fd: int, names: dict[int, str], services: dict[str, Service]) -> None:
        self.fd = fd
        with contextlib.suppress(OSError):  # from Linux 6.6 on: caller and supervisor take turns on one processor
            fcntl.ioctl(fd, SET_FLAGS, 1)
        self._names = names
        self._services = services

    def answer(self) -> bool:
        """Answer what waits now. False once nobody is left to ask."""
        buffer = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(self.fd, RECEIVE, buffer)
        except OSError as error:
            return error.errno in (errno.ENOENT, errno.EINTR)  # the caller died, or was held, before it was heard
        ident, pid, _, number, _, _, *args = _NOTICE.unpack(buffer)
        notice = Notice(ident, pid, self._names.get(number, ""), tuple(args))
        value, code, flags = 0, 0, 0
        try:
            value = self._services[notice.name](self, notice)
        except Refused as refused:
            code = -refused.number
        except Passed:
            flags = CONTINUE
        except Answered:
            return True
        except OSError as error:
            code = -(error.errno or errno.EPERM)
        except Exception:  # whatever a hostile argument does: the box goes on
            code = -errno.EPERM
        with contextlib.suppress(OSError):  # it died meanwhile
            fcntl.ioctl(self.fd, SEND, _ANSWER.pack(ident, value, code, flags))
        return True

    def valid(self, notice: Notice) -> None:
        """The caller still waits, so its number is no other process's. OSError where it does not."""
        fcntl.ioctl(self.fd, VALID, struct.pack("Q", notice.id))

    def give(self, notice: Notice, fd: int, number: int, flags: int) -> None:
        """Put a descriptor of ours in the place of one of the caller's."""
        fcntl.ioctl(self.fd, ADD_FD, _ADD.pack(notice.id, SET_FD, fd, number, flags))

    def send_fd(self, notice: Notice, fd: int, flags: int) -> None:
        """Answer with a descriptor of ours, under a number that is free there."""
        fcntl.ioctl(self.fd, ADD_FD, _ADD.pack(notice.id, SEND_FD, fd, 0, flags))

    def close(self) -> None:
        os.close(self.fd)


def signed(value: int) -> int:
    """An `int` argument."""
    return int(struct.unpack("i", struct.pack("I", value & 0xFFFFFFFF))[0])


def memory(notice: Notice, address: int, size: int) -> bytes:
    """Some memory of the caller, as far as it goes."""
    fd = os.open(f"/proc/{notice.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        page = 4096 - address % 4096
        try:
            return os.pread(fd, size, address)
        except OSError:
            return os.pread(fd, min(size, page), address)
    except (OSError, OverflowError):
        raise Refused(errno.EFAULT) from None
    finally:
        os.close(fd)


def text(notice: Notice, address: int) -> bytes:
    """A path of the caller."""
    if not address:
        raise Refused(errno.EFAULT)
    found, end, _ = memory(notice, address, PATH_MAX).partition(b"\0")
    if not end:
        raise Refused(errno.ENAMETOOLONG)
    return found
