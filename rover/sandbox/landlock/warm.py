"""The warm process of calls: the common one, with children that Landlock confines instead of namespaces."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import tempfile
from typing import Any

from rover.sandbox.inside.zygote import serve
from rover.sandbox.landlock import filter as filters
from rover.sandbox.landlock.confine import confine, hand_over


def _fork() -> tuple[int, int]:
    pid = os.fork()
    return (0, -1) if pid == 0 else (pid, os.pidfd_open(pid))


def main() -> None:
    """Arguments: the socket's number, what a call may see as JSON."""
    config = json.loads(sys.argv[2])
    program = filters.build(config["level"])
    import sandlock  # noqa: F401 - before the forks, not in each

    def confined(head: dict[str, Any]) -> None:
        os.environ["TMPDIR"] = os.environ["HOME"] = tempfile.tempdir = head["tmp"]
        write = (*config["write"], head["tmp"])
        listener = confine(head["limits"], tuple(config["read"]), write, config["work"], program, config["level"])
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # as for the first process of a namespace: an exception instead
            signal.signal(number, signal.SIG_IGN)
        hand_over(5, listener)

    serve(socket.socket(fileno=int(sys.argv[1])), _fork, confined)
