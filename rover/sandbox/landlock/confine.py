"""What a child does to itself before it runs anything: own session, limits, Landlock, the filter. Nothing is undone.

The child hands the listener of its filter to the supervisor, which answers its questions from then on.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import stat
from dataclasses import dataclass
from typing import Any

from rover.sandbox.inside import kernel
from rover.sandbox.inside.confine import limit
from rover.sandbox.landlock.level import PROTECTIONS, kept

_SECCOMP = {"x86_64": 317, "aarch64": 277}
SET_MODE_FILTER, NEW_LISTENER = 1, 8
#: Once a question is heard, no signal but a deadly one takes the caller away from it: else a process that stops itself
#: would, woken, ask to be stopped again.
UNTIL_ANSWERED = 32
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Grants:
    """What a box may see: `read` (and run) for commands, `code` beside it for calls, `write` of the host's devices."""

    read: tuple[str, ...]
    code: tuple[str, ...]
    write: tuple[str, ...]


def confine(
    limits: dict[str, Any], read: tuple[str, ...], write: tuple[str, ...], work: str, program: bytes, level: int
) -> int:
    """Confine this process, and return the listener of its filter. OSError where it cannot; it must then end."""
    os.setsid()
    _enter(work)
    limit(limits)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    restrict(read, (*write, work), level)
    return install(program)


def _enter(work: str) -> None:
    """Go into the workspace, also where an earlier command closed it to its owner. Its mode stays."""
    try:
        os.chdir(work)
    except PermissionError:
        mode = stat.S_IMODE(os.stat(work).st_mode)
        os.chmod(work, mode | stat.S_IXUSR)
        os.chdir(work)
        os.chmod(work, mode)


def restrict(read: tuple[str, ...], write: tuple[str, ...], level: int) -> None:
    """Landlock: these files and folders, and no others. `level` may be lower than the kernel's."""
    from sandlock import Protection, Sandbox
    from sandlock import confine as apply
    from sandlock.exceptions import SandlockError

    given = kept(level)
    lacking = [getattr(Protection, name) for name in PROTECTIONS if name not in given]
    try:
        apply(Sandbox(fs_readable=list(read), fs_writable=list(write), disable=lacking))
    except SandlockError as error:
        raise OSError(f"Landlock: {error}") from None


def install(program: bytes) -> int:
    """Put the filter on this process and all it starts, and return its listener."""
    buffer = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    head, flags = Program(len(program) // 8, ctypes.addressof(buffer)), NEW_LISTENER | UNTIL_ANSWERED
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    found = _libc.syscall(_SECCOMP[os.uname().machine], SET_MODE_FILTER, flags, ctypes.byref(head))
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")
    return int(found)


def hand_over(report: int, listener: int) -> None:
    """Send the listener to the supervisor, and keep neither."""
    with socket.socket(fileno=report) as sock:
        socket.send_fds(sock, [b"ok"], [listener])
    os.close(listener)
