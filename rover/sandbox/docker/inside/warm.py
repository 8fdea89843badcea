"""The warm process that calls are forked from, in a container: see `rover.sandbox.inside.zygote`."""

from __future__ import annotations

import os
import socket
import sys

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
    serve(sock, fork, lambda head: confine(powers, head["limits"], [CALLS]))
