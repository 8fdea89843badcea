"""The host's side of a box without namespaces. It differs from the common one in how it ends."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import weakref
from collections.abc import Mapping

from rover.sandbox.box import BubblewrapSandbox
from rover_store.records import Limits

#: seconds that a supervisor gets to end its processes and remove its folder
END_S = 10.0


class LandlockSandbox(BubblewrapSandbox):
    """One living box."""

    def __init__(self, sock: socket.socket, pidfd: int, errors: int, limits: Limits, env: Mapping[str, str]) -> None:
        super().__init__(sock, pidfd, errors, limits, env)
        self._end.detach()
        self._end = weakref.finalize(self, _end, sock, pidfd, errors, os.getpid())


def _end(sock: socket.socket, pidfd: int, errors: int, owner: int) -> None:
    """Hang up, and wait until the supervisor has ended everything; a forked copy of the opener only lets go."""
    if os.getpid() == owner:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        if not select.select([pidfd], [], [], END_S)[0]:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    sock.close()
    os.close(pidfd)
    os.close(errors)
