"""The few system calls that Python 3.11 does not offer, through ctypes. Each raises OSError with what failed."""

from __future__ import annotations

import ctypes
import os
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2

PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    _check(_libc.setns(fd, kind), "setns")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    result = _libc.mount(
        source.encode(),
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        data.encode() if data else None,
    )
    _check(result, f"mount {kind or source} on {target}")


def unmount(target: str) -> None:
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def prctl(option: int, a: int = 0, b: int = 0) -> int:
    zero = ctypes.c_ulong(0)
    result: int = _libc.prctl(option, ctypes.c_ulong(a), ctypes.c_ulong(b), zero, zero)
    return _check(result, f"prctl {option}")


def narrow_capabilities() -> list[int]:
    """Give up for good what this process does not hold now, and return the numbers of what it does."""
    with open("/proc/self/status") as stream:
        rows = dict(line.split(":", 1) for line in stream)
    held, bound = (int(rows[name], 16) for name in ("CapPrm", "CapBnd"))
    for capability in range(64):
        if (bound & ~held) >> capability & 1:
            prctl(PR_CAPBSET_DROP, capability)
    return [capability for capability in range(64) if held >> capability & 1]


def drop_capabilities(held: list[int]) -> None:
    """Empty every capability set of this process, for good."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    for capability in held:
        prctl(PR_CAPBSET_DROP, capability)
    header = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0))
    _check(_libc.capset(header, ctypes.create_string_buffer(24)), "capset")


def install_filter(program: bytes) -> None:
    """Put a seccomp filter (packed `sock_filter` instructions) on this process and all it starts."""
    buffer = ctypes.create_string_buffer(program, len(program))
    head = ctypes.create_string_buffer(struct.pack("HL", len(program) // 8, ctypes.addressof(buffer)))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_SECCOMP, 2, ctypes.addressof(head))
