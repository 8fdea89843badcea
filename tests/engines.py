"""Engines for tests of the docker sandbox: the real one, a way to it that can be cut, and one that only says no."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from boxes import make
from docker.errors import APIError

from rover.sandbox.docker.engine import Engine
from rover.sandbox.docker.images import LABEL, packed


@contextlib.contextmanager
def real_engine() -> Iterator[Engine]:
    """The engine of this machine; the test is skipped, or fails, where there is none. Images made meanwhile go."""
    make("docker").close()
    engine = Engine()
    before = made(engine)
    yield engine
    while rest := made(engine) - before:  # an image goes after those that were made of it
        for image in rest:
            with contextlib.suppress(APIError):
                engine._client.remove_image(image, force=True)
    engine.close()


def made(engine: Engine) -> set[str]:
    """Ids of the images that rover made."""
    return {item["Id"] for item in engine._client.images(filters={"label": LABEL})}


def containers(engine: Engine, pid: int) -> list[str]:
    """The containers of one process."""
    found = engine._client.containers(all=True, filters={"label": "rover.owner"})
    return [item["Id"] for item in found if item["Labels"]["rover.owner"].startswith(f"{pid}:")]


def small_image(engine: Engine, name: str) -> str:
    """An image that holds a shell, a few programs and their libraries, and no Python; gives its id."""
    programs = [shutil.which(program) or "" for program in ("sh", "cat", "ls", "id", "rm", "mkdir")]
    libraries = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout.split()
    found = {word for word in libraries if word.startswith("/") and not word.endswith(":")}
    files = {path: Path(path).read_bytes() for path in found}
    files |= {f"/bin/{Path(program).name}": Path(program).read_bytes() for program in programs}
    data = packed([*files.items(), ("/opt/app/kept", b"in the image\n"), ("/etc/issue", b"small\n")], mode=0o755)
    engine.import_image(data, name, "1", LABEL)
    image = engine.image(f"{name}:1")
    assert image is not None
    return str(image["Id"])


class Way:
    """A socket that leads to the real engine until it is cut."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "way.sock")
        self._to = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
        if not os.path.exists(self._to):
            pytest.skip("the engine is not at a socket of this machine")
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self.path)
        self._server.listen(50)
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def cut(self) -> None:
        os.unlink(self.path)
        self._server.close()
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for sock in self._open:
            sock.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._to)
                self._open += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=_carry, args=(one, other), daemon=True).start()


def _carry(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(1 << 16):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)


class SayingEngine:
    """A program that speaks as an engine would: what it knows of itself, and one answer to whatever is to be made."""

    def __init__(self, folder: Path, info: dict[str, Any], status: int = 500, said: str = "") -> None:
        self.path = str(folder / "saying.sock")
        self._answers = {"version": {"ApiVersion": "1.41"}, "info": {"OSType": "linux", **info}, "containers/json": []}
        self._status, self._said = status, said
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self.path)
        self._server.listen(20)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                with near, contextlib.suppress(OSError):
                    if not (head := near.recv(1 << 20)):
                        continue
                    near.sendall(self._answer(head.split(b" ")[1].decode()))
                    near.shutdown(socket.SHUT_WR)
                    while near.recv(1 << 16):
                        pass

    def _answer(self, path: str) -> bytes:
        what = path.partition("?")[0].removeprefix("/v1.41").strip("/")
        status, value = (200, self._answers[what]) if what in self._answers else (self._status, {"message": self._said})
        body = json.dumps(value).encode()
        head = f"HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return f"{head}Connection: close\r\n\r\n".encode() + body
