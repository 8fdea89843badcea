"""One command: a child in its own pid namespace, confined, that starts the command and waits for it."""

from __future__ import annotations

import errno
import os
import resource
import struct
from collections.abc import Callable
from typing import Any

from rover.sandbox.inside.confine import Powers, confine, find_program
from rover.sandbox.inside.entry import one_line

#: What the first process reports: wait status of the command, user and system seconds.
REPORT = struct.Struct("idd")
#: Exit code of a first process that could not confine itself; its reason stands on the report pipe.
BROKEN = 99


def become_command(
    powers: Powers, head: dict[str, Any], limits: dict[str, Any], hide: list[str], fds: tuple[int, ...]
) -> None:
    """In the forked child: run the request's `argv` with its `env`, with all `fds` but the last, from 0 on; report on
    the last of them, and end."""
    report = len(fds) - 1
    try:
        arrange(fds)
        confine(powers, limits, hide)
        status = _first_process(lambda: _start(head["argv"], head["env"]))
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        os.write(report, REPORT.pack(status, used.ru_utime, used.ru_stime))
        os._exit(0)
    except BaseException as error:
        os.write(report, one_line(error).encode())
    finally:
        os._exit(BROKEN)


def arrange(fds: tuple[int, ...]) -> None:
    """Put the descriptors at 0, 1, ..., close all others; the last is not passed on."""
    high = [os.dup2(fd, 100 + i, inheritable=False) for i, fd in enumerate(fds)]
    for i, fd in enumerate(high):
        os.dup2(fd, i, inheritable=i < len(fds) - 1)
    os.closerange(len(fds), 4096)


def _first_process(start: Callable[[], int]) -> int:
    """Be pid 1: start the command, reap whatever ends, return the command's wait status."""
    child = start()
    if child < 0:
        return -child << 8
    while True:
        pid, status = os.wait()
        if pid == child:
            return status


def _start(argv: list[str], env: dict[str, str]) -> int:
    """The pid of the started command, or minus the exit code a shell would give."""
    name = argv[0] if argv else ""
    try:
        program = find_program(name, env.get("PATH", ""))
        if program is None:
            raise FileNotFoundError(errno.ENOENT, "not found")
        return os.posix_spawn(program, argv, env)
    except (OSError, ValueError) as error:  # ValueError: a null byte, text that no file system can hold
        said = error.strerror if isinstance(error, OSError) else str(error)
        os.write(2, f"{name}: {said}\n".encode("utf-8", "backslashreplace"))
        return -127 if isinstance(error, FileNotFoundError) else -126
