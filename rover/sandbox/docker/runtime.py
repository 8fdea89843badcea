"""The docker sandbox: one container a box, in an engine that this machine can reach."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from dataclasses import replace

from rover.sandbox import layout as layouts
from rover.sandbox.docker import images
from rover.sandbox.docker.box import DockerSandbox
from rover.sandbox.docker.engine import Engine
from rover.sandbox.docker.layout import Layout, around, bare, carried
from rover.sandbox.places import RESERVED, RESERVED_OF_IMAGES, clash, links_of, shows_of
from rover.sandbox.protocol import Files, Place, Probe
from rover.sandbox.runtime_id import runtime_id
from rover.sandbox.trial import problem
from rover_store.errors import SandboxError
from rover_store.records import Limits


class DockerRuntime:
    """Opens boxes in one engine, connected to when first needed. Safe to share between threads."""

    kind = "docker"
    reserved = RESERVED  # where the package has no image of its own
    reserved_of_images = RESERVED_OF_IMAGES
    def __init__(self, *, image: str = "") -> None:
        self._image = image or os.environ.get("ROVER_DOCKER_IMAGE", "")  # one that carries rover
        self._lock = threading.Lock()
        self._connected: tuple[int, Engine] | None = None  # the process that connected
        self._known: tuple[str, ...] | None = None  # what the engine cannot guarantee
        self._boxes: weakref.WeakSet[DockerSandbox] = weakref.WeakSet()

    @property
    def offers(self) -> tuple[str, ...]:
        """An engine that does not see this machine's files cannot lend an image rover's interpreter."""
        return ("workdir",) if self._image else ("workdir", "image")

    @property
    def unmet(self) -> tuple[str, ...]:
        """What the engine cannot guarantee, as it said when it answered last. SandboxError where none has yet: a
        runtime of which nothing is known promises nothing."""
        with self._lock:
            if self._known is None:
                self._known = self._connect().unmet
            return self._known

    def probe(self) -> Probe:
        if reason := problem(self):
            return Probe(self.kind, False, reason)
        return Probe(self.kind, True, unmet=self.unmet, offers=self.offers)

    def runtime_id(self) -> str:
        found = self._engine().image(self._image) if self._image else None
        image = found["Id"] if found else self._image  # it brings a Python and libraries of its own
        return runtime_id(self.kind, 1, self.unmet, ("sandbox/docker/inside",), image)

    def image_id(self, place: Place) -> str:
        engine = self._engine()
        engine.reach()
        return str(images.own_image(engine, place)["Id"])

    def open(self, files: Files, *, limits: Limits | None = None, place: Place | None = None) -> DockerSandbox:
        engine = self._engine()
        engine.reach()
        image, layout = self._place(engine, place or Place())
        env = {**layout.env, **dict(place.env if place else ())}
        box = DockerSandbox(engine, image, layout, limits or Limits(), env)
        self._boxes.add(box)
        try:
            box.reset(files)
        except BaseException:
            box.close()
            raise
        return box

    def _place(self, engine: Engine, place: Place) -> tuple[str, Layout]:
        """The image for a place, and what stands in and around it."""
        own = bool(place.image or place.build)
        reserved = RESERVED_OF_IMAGES if own else RESERVED
        links = dict(links_of(place, reserved))
        if self._image:
            return self._carried(engine, place, links)
        if sys.platform != "linux":
            raise SandboxError(
                "an engine elsewhere than on Linux does not see this machine's Python",
                hint="name an image that carries rover: ROVER_DOCKER_IMAGE=...",
            )
        if own:
            found = images.own_image(engine, place)
            layout = around(found)
            if kept := [path for path in links if path in layout.hidden]:
                raise SandboxError(f"the image keeps {kept[0]} as a volume: the workspace cannot stand there")
            image = images.linked(engine, found["Id"], links)
        else:
            layout = bare(tuple(p for p in layouts.prefixes() if any(clash(path, (p,)) for path in links)))
            image = images.empty_image(engine, layout.files, layout.links | links)
        return image, replace(layout, shown=(*layout.shown, *shows_of(place, reserved, layout.shown)))

    def _carried(self, engine: Engine, place: Place, links: dict[str, str]) -> tuple[str, Layout]:
        if place.image or place.build or place.shows:
            raise SandboxError(
                "an engine that does not see this machine's files can run packages without an image of their own only"
            )
        found = engine.image(self._image)
        if found is None:
            raise SandboxError(f"there is no image {self._image} here", hint=f"docker pull {self._image}")
        return images.linked(engine, found["Id"], links), carried()

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
            return self._connect()

    def _connect(self) -> Engine:
        """The connection of this process. The caller holds the lock."""
        if self._connected is None or self._connected[0] != os.getpid():
            layouts.compile_inside()
            engine = Engine()
            self._known = engine.unmet
            engine.reap()
            self._connected = (os.getpid(), engine)
        return self._connected[1]
