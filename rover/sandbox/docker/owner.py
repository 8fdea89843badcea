"""Whose a container is: the process that started it, named so that another one can tell whether it still lives."""

from __future__ import annotations

import os
import socket

#: On every container that rover starts: the machine and its process namespace; the process and its start.
HOST, OWNER = "rover.host", "rover.owner"


def labels() -> dict[str, str]:
    """The labels of this process's containers."""
    return {HOST: host(), OWNER: f"{os.getpid()}:{_started(os.getpid())}"}


def host() -> str:
    """This boot of this machine, and the namespace in which process ids count."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as stream:
            return f"{stream.read().strip()}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:  # no Linux
        return f"{socket.gethostname()}:-"


def lives(owner: str) -> bool:
    """Whether the process of this label still runs."""
    number, _, started = owner.partition(":")
    if not number.isdigit():
        return True  # not ours to judge
    if now := _started(int(number)):
        return now == started
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # another user's, which /proc may hide
    return not started  # of our own user, and not in /proc: it has ended, and nobody asked how


def _started(pid: int) -> str:
    """When a process started, in ticks since the boot; empty where it does not live, or the system does not say."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            fields = stream.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
