"""The warm process that calls are forked from, in a container: see `rover.sandbox.inside.zygote`."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import Any

from rover.sandbox.docker.inside.jail import CALLS, confine
from rover.sandbox.inside import frames
from rover.sandbox.inside.confine import Powers
from rover.sandbox.inside.zygote import serve


def fork() -> tuple[int, int]:
    pid = os.fork()
    return (0, -1) if pid == 0 else (pid, os.pidfd_open(pid))


def main() -> None:
    """Its argument is the socket to the supervisor; the first message there says where the libraries are."""
    sock = socket.socket(fileno=int(sys.argv[1]))
    sys.path += frames.receive(sock).head["site"]
    powers = Powers()

    def become(head: dict[str, Any]) -> None:
        confine(powers, head["limits"], [CALLS])
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # an error of the call, as in a namespace's first process
            signal.signal(number, signal.SIG_IGN)

    serve(sock, fork, become)
