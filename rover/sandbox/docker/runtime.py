"""The docker sandbox: one container a box, in an engine that this machine can reach."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref

from rover.sandbox import layout as layouts
from rover.sandbox.docker import images
from rover.sandbox.docker.box import DockerSandbox
from rover.sandbox.docker.engine import Engine
from rover.sandbox.docker.layout import bare
from rover.sandbox.protocol import Files, Place, Probe
from rover.sandbox.runtime_id import runtime_id
from rover_store.errors import SandboxError
from rover_store.records import Limits


class DockerRuntime:
    """Opens boxes in one engine, connected to when first needed. Safe to share between threads."""

    kind = "docker"
    offers = ("workdir", "image")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connected: tuple[int, Engine] | None = None  # the process that connected
        self._boxes: weakref.WeakSet[DockerSandbox] = weakref.WeakSet()

    @property
    def unmet(self) -> tuple[str, ...]:
        """What the engine cannot guarantee; nothing where none answers."""
        with contextlib.suppress(SandboxError):
            return self._engine().unmet
        return ()

    def probe(self) -> Probe:
        try:
            with contextlib.closing(self.open({"probe": b"1"})) as box:
                done = box.run(["/bin/sh", "-c", "cat probe && echo 2 > probe"])
                if done.exit_code != 0 or box.snapshot().entries["probe"].size != 2:
                    reason = done.stderr.decode("utf-8", "replace").strip() or f"exit {done.exit_code}"
                    return Probe(self.kind, False, f"a command in it failed: {reason}", unmet=self.unmet)
        except SandboxError as error:
            reason = error.message + (f"; {error.hint}" if error.hint else "")
            return Probe(self.kind, False, reason)
        return Probe(self.kind, True, unmet=self.unmet, offers=self.offers)

    def runtime_id(self) -> str:
        return runtime_id(self.kind, 1, self.unmet, ("sandbox/docker/inside",))

    def open(self, files: Files, *, limits: Limits | None = None, place: Place | None = None) -> DockerSandbox:
        engine = self._engine()
        layout = bare()
        image = images.empty_image(engine, layout.files, layout.links)
        box = DockerSandbox(engine, image, layout, limits or Limits(), layout.env)
        self._boxes.add(box)
        try:
            box.reset(files)
        except BaseException:
            box.close()
            raise
        return box

    def reap(self) -> list[str]:
        """Remove the containers that rovers left which do not live any more."""
        return self._engine().reap()

    def close(self) -> None:
        for box in list(self._boxes):
            box.close()
        with self._lock:
            connected, self._connected = self._connected, None
        if connected is not None:
            connected[1].close()

    def _engine(self) -> Engine:
        with self._lock:
            if self._connected is None or self._connected[0] != os.getpid():
                layouts.compile_inside()
                engine = Engine()
                engine.reap()
                self._connected = (os.getpid(), engine)
            return self._connected[1]
