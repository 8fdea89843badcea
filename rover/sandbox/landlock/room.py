"""How many processes the kernel counts for this user already: its limit on processes is one for all of a user's."""

from __future__ import annotations

import os
import resource
import time

from rover.sandbox.landlock.processes import tasks_of_user

FRESH_S = 5.0
#: beyond what is counted: other boxes start processes meanwhile
MARGIN = 100


class Room:
    """The count, taken anew after a while. Processes in other containers count too, though nobody here can see
    them: so a fork is tried, and where it fails the count is raised until it works."""

    def __init__(self) -> None:
        self._count = 0
        self._until = 0.0

    def of_user(self) -> int:
        if time.monotonic() >= self._until:
            self._count = tasks_of_user()
            while not _can_fork(self._count + 2):
                self._count += max(16, self._count // 4)
            self._until = time.monotonic() + FRESH_S
        return self._count + MARGIN


def _can_fork(limit: int) -> bool:
    """Whether a process with this limit may fork. Tried in a child, as a limit cannot be raised again."""
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    if hard != resource.RLIM_INFINITY and limit >= hard:
        return True
    pid = os.fork()
    if pid == 0:
        try:
            resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
            inner = os.fork()
            if inner == 0:
                os._exit(0)
            os.waitpid(inner, 0)
            os._exit(0)
        except BlockingIOError:
            os._exit(1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 1
