"""A system call filter on the agent: nothing in the box can send SIGKILL to the agent or its relay.

So when one of them dies by SIGKILL, it came from outside the box, and the rollout is tried again. Without this an
agent (or a model, by a shell command) could end itself and make a failure look like a fault of the infrastructure.
Closed are the ways by which a process is killed: signals, F_SETSIG, limits on processor time, and the signals that a
timer, a message queue or a child's end may be asked to send. Other kills (an agent's own children, by process or by
group) go through. One way is left, which no filter sees: a thread of the agent, named to `kill` by its own number;
so an agent that is killed once more when it is tried again did it itself (rover.rollout.attempt).
"""

from __future__ import annotations

import ctypes
import os
import struct

ALLOW, ERRNO, EPERM, ENOSYS = 0x7FFF0000, 0x00050000, 1, 38
_LOAD, _JEQ, _JGE, _AND, _RET = 0x20, 0x15, 0x35, 0x54, 0x06
SIGKILL, F_SETSIG = 9, 10
#: the byte of clone's flags that holds what a child's end sends; limits whose end is SIGKILL: processor time, and that
#: of real-time scheduling
_AT_END, _TIMES = 0xFF, (0, 15)
_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
#: on x86_64 and aarch64
_NUMBERS = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "fcntl": (72, 25),
    "prlimit64": (302, 261),
    "setrlimit": (160, 164),
    "clone": (56, 220),
    "clone3": (435, 435),
    "timer_create": (222, 107),
    "mq_notify": (244, 184),
}
#: not there rather than forbidden, so that programs fall back: they hide their signal in memory
_ABSENT = ("clone3", "timer_create", "mq_notify")
#: which argument is the signal
_SIGNALS = {"tkill": 1, "tgkill": 2, "rt_sigqueueinfo": 1, "rt_tgsigqueueinfo": 2, "pidfd_send_signal": 1}


def _op(code: int, k: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("HBBI", code, yes, no, k & 0xFFFFFFFF)


def build(protected: list[int], machine: str) -> bytes:
    """The filter that protects these processes, as packed instructions; empty for an unknown machine."""
    if machine not in _ARCH:
        return b""
    column = 0 if machine == "x86_64" else 1
    deny, allow, absent = _op(_RET, ERRNO | EPERM), _op(_RET, ALLOW), _op(_RET, ERRNO | ENOSYS)
    code = [_op(_LOAD, 4), _op(_JEQ, _ARCH[machine], 1, 0), absent, _op(_LOAD, 0)]
    if column == 0:  # x32
        code += [_op(_JGE, 0x40000000, 0, 1), absent]

    def rule(name: str, test: list[bytes]) -> None:
        code.extend([_op(_JEQ, _NUMBERS[name][column], 0, len(test)), *test])

    def argument(number: int) -> bytes:
        return _op(_LOAD, 16 + 8 * number)

    def among(values: list[int]) -> list[bytes]:
        """Deny where the loaded value is one of these, allow else."""
        jumps = [_op(_JEQ, value, len(values) - i, 0) for i, value in enumerate(values)]
        return [*jumps, allow, deny]

    targets = [0, -1, *protected, *(-pid for pid in protected)]
    rule("kill", [argument(1), _op(_JEQ, SIGKILL, 1, 0), allow, argument(0), *among(targets)])
    for name, place in _SIGNALS.items():
        rule(name, [argument(place), *among([SIGKILL])])
    rule("fcntl", [argument(1), _op(_JEQ, F_SETSIG, 1, 0), allow, argument(2), *among([SIGKILL])])
    # a limit on time may be asked for and not set: the new one has to be none, in both halves of its address
    none = [argument(2), _op(_JEQ, 0, 0, 3), _op(_LOAD, 36), _op(_JEQ, 0, 0, 1), allow, deny]
    which = [_op(_JEQ, limit, len(_TIMES) - i, 0) for i, limit in enumerate(_TIMES)]
    ours = [step for pid in protected for step in (_op(_JEQ, pid, 0, 1), deny)]
    rule("prlimit64", [argument(0), *ours, argument(1), *which, allow, *none])
    rule("setrlimit", [argument(0), *among(list(_TIMES))])
    rule("clone", [argument(0), _op(_AND, _AT_END), *among([SIGKILL])])
    for name in _ABSENT:
        rule(name, [absent])
    code.append(allow)
    return b"".join(code)


def hide() -> None:
    """Keep this process's memory and descriptors from the others of its user: who could write them could lie to the
    host about how an agent ended."""
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)


def install(protected: list[int]) -> bool:
    """Put the filter on this process and all that it starts. False where that cannot be."""
    program = build(protected, os.uname().machine)
    if not program:
        return False

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) < 0:  # no new privileges, which a filter needs
        return False
    held = Program(len(program) // 8, program)
    return bool(libc.prctl(22, 2, ctypes.byref(held), 0, 0) == 0)
