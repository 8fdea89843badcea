"""The seccomp filter of a box without namespaces: what the common one denies, and what namespaces would have hidden.

Three answers beside `allowed`: denied for good; not there, so that libraries fall back; and a question to the
supervisor (`ASKED`), which may look at paths and addresses as a filter cannot, and serves the box's own alone.
Landlock governs none of these: modes, times and owners of files, extended attributes, watches, limits and
priorities of other processes of the same user, message queues, and sockets.
"""

from __future__ import annotations

import errno
import os
import socket

from rover.sandbox.inside.seccomp import (
    ABSENT,
    ALLOW,
    AUDIT,
    CLONE,
    DENIED,
    ERRNO,
    IOCTL,
    JEQ,
    JGE,
    JSET,
    KILL,
    LOAD,
    NAMESPACES,
    RET,
    SOCKET,
    SOCKETPAIR,
    only,
    op,
)

NOTIFY = 0x7FC00000
#: name -> number on x86_64 and aarch64 (-1: not there); the answer is EPERM
MORE_DENIED: dict[str, tuple[int, int]] = {
    "chown": (92, -1),
    "fchown": (93, 55),
    "lchown": (94, -1),
    "fchownat": (260, 54),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "process_mrelease": (448, 448),
    "file_setattr": (469, 469),
    "fanotify_mark": (301, 263),
    "move_pages": (279, 239),
}
#: the answer is ENOTSUP, as of a file system that has none
NO_ATTRIBUTES: dict[str, tuple[int, int]] = {
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
}
#: the answer is ENOSYS: watches would tell names of the host's files as they change
NO_WATCHES: dict[str, tuple[int, int]] = {
    "inotify_init": (253, -1),
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
}
#: asked of the supervisor
ASKED: dict[str, tuple[int, int]] = {
    "chmod": (90, -1),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "utime": (132, -1),
    "utimes": (235, -1),
    "futimesat": (261, -1),
    "utimensat": (280, 88),
    "bind": (49, 200),
    "connect": (42, 203),
    "listen": (50, 201),
}
#: asked where they open for reading: which argument holds the flags
OPENS: dict[str, tuple[tuple[int, int], int]] = {"open": ((2, -1), 1), "openat": ((257, 56), 2)}
NOT_READING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_PATH
#: asked too where Landlock does not keep signals inside
ASKED_SIGNALS: dict[str, tuple[int, int]] = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
}
TRUNCATE = (76, 45)
#: calls whose nth argument names a process: allowed for the caller alone, which is 0
OWN_ONLY: dict[str, tuple[tuple[int, int], int]] = {
    "prlimit64": ((302, 261), 0),
    "sched_setparam": ((142, 118), 0),
    "sched_setscheduler": ((144, 119), 0),
    "sched_setattr": ((314, 274), 0),
    "sched_setaffinity": ((203, 122), 0),
    "setpriority": ((141, 140), 1),
    "ioprio_set": ((251, 30), 1),
}
#: and whose first must say that a process is meant, no group and no user: `setpriority`, `ioprio_set`
PROCESS = {"setpriority": 0, "ioprio_set": 1}
FCNTL, FCNTL_DENIED = (72, 25), (8, 10, 15, 1026)  # F_SETOWN, F_SETSIG, F_SETOWN_EX, F_NOTIFY
#: what a terminal or a plain file may be asked: TCGETS, TCSETS*, sizes, groups, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX,
#: FICLONE, FICLONERANGE, FIEMAP, GETFLAGS. All else is ENOTTY: some change files that were opened for reading alone
IOCTL_ALLOWED = (
    0x5401, 0x5402, 0x5403, 0x5404, 0x540F, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451,
    0x40049409, 0x4020940D, 0xC020660B, 0x80086601,
)  # fmt: skip
FASTOPEN = 0x20000000  # MSG_FASTOPEN connects without a connect
#: calls that send -> which argument holds the flags
SENDS: dict[str, tuple[tuple[int, int], int]] = {
    "sendto": ((44, 206), 3),
    "sendmsg": ((46, 211), 2),
    "sendmmsg": ((307, 269), 3),
}
#: SOL_SOCKET, SO_REUSEPORT: with it a port could be shared with a process of the same user on the host
SETSOCKOPT, SHARED_PORT = (54, 208), (1, 15)
STREAM, SEQPACKET, TYPE_MASK, TCP = 1, 5, 0xF, 6
_AND = 0x54


def asked(column: int, level: int) -> dict[int, str]:
    """Number -> name of what is asked of the supervisor."""
    names = ASKED if level >= 6 else ASKED | ASKED_SIGNALS
    names = names | {name: numbers for name, (numbers, _) in OPENS.items()}
    return {numbers[column]: name for name, numbers in names.items() if numbers[column] >= 0}


def column(machine: str | None = None) -> int:
    """Which number counts on this machine. OSError where there is no filter for it."""
    machine = machine or os.uname().machine
    if machine not in AUDIT:
        raise OSError(errno.ENOSYS, f"no seccomp filter for {machine}")
    return 0 if machine == "x86_64" else 1


def build(level: int, machine: str | None = None) -> bytes:
    """The filter for a machine and a level of Landlock, as packed instructions."""
    machine = machine or os.uname().machine
    at = column(machine)
    deny, absent = op(RET, ERRNO | errno.EPERM), op(RET, ERRNO | errno.ENOSYS)
    none, no_tty = op(RET, ERRNO | errno.ENOTSUP), op(RET, ERRNO | errno.ENOTTY)
    code = [op(LOAD, 4), op(JEQ, AUDIT[machine], 1, 0), op(RET, KILL), op(LOAD, 0)]
    if machine == "x86_64":
        code += [op(JGE, 0x40000000, 0, 1), absent]
    cut = {} if level >= 3 else {"truncate": TRUNCATE}
    for table, answer in (
        (DENIED | MORE_DENIED | cut, deny),
        (ABSENT | NO_WATCHES, absent),
        (NO_ATTRIBUTES, none),
    ):
        for numbers in table.values():
            if numbers[at] >= 0:
                code += [op(JEQ, numbers[at], 0, 1), answer]
    opens = {numbers[at]: which for numbers, which in OPENS.values() if numbers[at] >= 0}
    for number, which in opens.items():
        code += only(number, [_arg(which), op(JSET, NOT_READING, 0, 1), op(RET, ALLOW), op(RET, NOTIFY)])
    for number in asked(at, level):
        if number not in opens:
            code += [op(JEQ, number, 0, 1), op(RET, NOTIFY)]
    code += only(CLONE[at], [_arg(0), op(JSET, NAMESPACES, 0, 1), deny, op(RET, ALLOW)])
    for call in (SOCKET, SOCKETPAIR):
        code += only(call[at], _sockets(pair=call is SOCKETPAIR))
    code += only(IOCTL[at], [_arg(1), *_one_of(IOCTL_ALLOWED), no_tty, op(RET, ALLOW)])
    code += only(FCNTL[at], [_arg(1), *_one_of(FCNTL_DENIED), op(RET, ALLOW), deny])
    (of_sockets, shared), unknown = SHARED_PORT, op(RET, ERRNO | errno.ENOPROTOOPT)
    option = [_arg(1), op(JEQ, of_sockets, 0, 3), _arg(2), op(JEQ, shared, 0, 1), unknown]
    code += only(SETSOCKOPT[at], [*option, op(RET, ALLOW)])
    for name, (numbers, which) in OWN_ONLY.items():
        first = [_arg(0), op(JEQ, PROCESS[name], 1, 0), deny] if name in PROCESS else []
        code += only(numbers[at], [*first, _arg(which), op(JEQ, 0, 1, 0), deny, op(RET, ALLOW)])
    for numbers, which in SENDS.values():
        code += only(numbers[at], [_arg(which), op(JSET, FASTOPEN, 0, 1), deny, op(RET, ALLOW)])
    code.append(op(RET, ALLOW))
    return b"".join(code)


def _arg(which: int) -> bytes:
    """Load the low half of an argument. The kernel reads all of these as 32 bits."""
    return op(LOAD, 16 + 8 * which)


def _one_of(values: tuple[int, ...]) -> list[bytes]:
    """Jump over the next instruction where the loaded value is one of these."""
    return [op(JEQ, value, len(values) - i, 0) for i, value in enumerate(values)]


def _sockets(*, pair: bool) -> list[bytes]:
    """Streams between processes of the box: UNIX, and TCP. A datagram could be sent anywhere by its address, and IP
    knows more kinds of streams than TCP."""
    deny, refuse = op(RET, ERRNO | errno.EPERM), op(RET, ERRNO | errno.EAFNOSUPPORT)
    kind, allow = [_arg(1), op(_AND, TYPE_MASK)], op(RET, ALLOW)
    unix = [*kind, *_one_of((STREAM, SEQPACKET)), deny, allow]
    tcp = [*kind, *_one_of((STREAM,)), deny, _arg(2), *_one_of((0, TCP)), refuse, allow]
    families = () if pair else (int(socket.AF_INET), int(socket.AF_INET6))
    rest = [*_one_of(families), refuse, *tcp] if families else [refuse]
    return [_arg(0), op(JEQ, int(socket.AF_UNIX), 0, len(unix)), *unix, *rest]
