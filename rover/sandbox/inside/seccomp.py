"""The seccomp filter of commands and calls: what no honest command needs and a hostile one would want.

Everything is allowed but a list: namespaces and mounts, other processes' memory and descriptors, memory that no
limit counts (memfd, System V), kernel interfaces with a bad record, and sockets other than UNIX and IP (a
network namespace does not stop AF_VSOCK). A foreign ABI is killed, x32 gets ENOSYS.
"""

from __future__ import annotations

import errno
import os
import socket
import struct

#: name -> number on x86_64 and aarch64 (-1: not there)
DENIED: dict[str, tuple[int, int]] = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semctl": (66, 191),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgctl": (71, 187),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, -1),
    "iopl": (172, -1),
    "ioperm": (173, -1),
}
#: Not there rather than forbidden, so that libraries fall back: clone3 hides its flags from a filter.
ABSENT: dict[str, tuple[int, int]] = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
CLONE, SOCKET, SOCKETPAIR, IOCTL = (56, 220), (41, 198), (53, 199), (16, 29)
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NAMESPACES = 0x7E020000  # every CLONE_NEW* flag but NEWTIME, which clone takes as part of the exit signal
FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
INJECT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: push input into a terminal

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
LOAD, JEQ, JGE, JSET, RET = 0x20, 0x15, 0x35, 0x45, 0x06


def op(code: int, k: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("HBBI", code, yes, no, k)


def only(number: int, test: list[bytes]) -> list[bytes]:
    """`test` (which loads an argument and ends in a return) for one system call; reload the number after."""
    return [op(JEQ, number, 0, len(test)), *test]


def build(machine: str | None = None) -> bytes:
    """The filter for a machine (x86_64 or aarch64) as packed instructions. OSError for any other."""
    machine = machine or os.uname().machine
    if machine not in AUDIT:
        raise OSError(errno.ENOSYS, f"no seccomp filter for {machine}")
    column = 0 if machine == "x86_64" else 1
    deny, absent = op(RET, ERRNO | errno.EPERM), op(RET, ERRNO | errno.ENOSYS)
    code = [op(LOAD, 4), op(JEQ, AUDIT[machine], 1, 0), op(RET, KILL), op(LOAD, 0)]
    if machine == "x86_64":
        code += [op(JGE, 0x40000000, 0, 1), absent]
    for numbers in DENIED.values():
        if numbers[column] >= 0:
            code += [op(JEQ, numbers[column], 0, 1), deny]
    for numbers in ABSENT.values():
        code += [op(JEQ, numbers[column], 0, 1), absent]
    low = 16  # offset of the low half of the first argument
    code += only(CLONE[column], [op(LOAD, low), op(JSET, NAMESPACES, 0, 1), deny, op(RET, ALLOW)])
    for call in (SOCKET, SOCKETPAIR):
        tests = [op(JEQ, int(f), len(FAMILIES) - i, 0) for i, f in enumerate(FAMILIES)]
        refuse = op(RET, ERRNO | errno.EAFNOSUPPORT)
        code += only(call[column], [op(LOAD, low), *tests, refuse, op(RET, ALLOW)])
    tests = [op(LOAD, low + 8), op(JEQ, INJECT[0], 1, 0), op(JEQ, INJECT[1], 0, 1), deny]
    code += only(IOCTL[column], [*tests, op(RET, ALLOW)])
    code.append(op(RET, ALLOW))
    return b"".join(code)
