"""A process of a runtime's own that starts its boxes and ends with rover; spoken to over one socket."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

from rover.sandbox.remedies import explain
from rover_store.errors import SandboxError

START_S = 30.0


class Companion:
    """Runs `script` with the numbers of its socket and of this process, and `argument`. It answers `{}` once it is
    ready, and each request after that, `{"error": ...}` where something failed."""

    def __init__(self, script: Path, argument: str) -> None:
        self._owner = os.getpid()
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with far:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(script), str(far.fileno()), str(os.getpid()), argument],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[far.fileno()],
                    start_new_session=True,
                    cwd="/",
                )
        except BaseException:
            near.close()
            raise
        near.settimeout(START_S)
        self._sock = near
        self._end = weakref.finalize(self, _stop, near, self._process, self._owner)
        self._receive()

    def usable(self) -> bool:
        """False in a forked copy of the process that started it, and where it has died."""
        return self._owner == os.getpid() and self._process.poll() is None

    def ask(self, request: dict[str, Any], fds: list[int]) -> None:
        """Have a box started that speaks over the first descriptor and complains on the second."""
        try:
            socket.send_fds(self._sock, [json.dumps(request).encode()], fds)
        except OSError as error:
            raise SandboxError(f"the launcher is gone: {error.strerror}") from None
        self._receive()

    def close(self) -> None:
        self._end()

    def _receive(self) -> None:
        try:
            answer = json.loads(self._sock.recv(1 << 16) or b'{"error": "the launcher ended"}')
        except (TimeoutError, ConnectionError):
            answer = {"error": "the launcher does not answer"}
        if "error" in answer:
            self._end()
            raise SandboxError(explain(answer["error"]))


def _stop(sock: socket.socket, process: subprocess.Popen[bytes], owner: int) -> None:
    sock.close()
    if owner == os.getpid():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
