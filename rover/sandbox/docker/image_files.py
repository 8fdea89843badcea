"""What lies in the working folder of an image: read out of a container that is never started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rover.sandbox.docker.engine import Engine
from rover_store.errors import SandboxError


@contextmanager
def image_folder(image: str, folder: str = "") -> Iterator[tuple[str, Iterator[bytes]]]:
    """The folder (the image's own working folder where none is named) and a tar of it, chunk by chunk.

    The tar is as the engine gives it: bound what is read of it. SandboxError where no engine answers, or it does not
    have the image; nothing is fetched.
    """
    engine = Engine()
    try:
        known = engine.image(image)
        if known is None:
            raise SandboxError(f"the Docker engine has no image {image}", hint=f"docker pull {image}")
        where = folder or str((known.get("Config") or {}).get("WorkingDir") or "/")
        with engine.folder(image, where) as chunks:
            yield where, chunks
    finally:
        with suppress(OSError):
            engine.close()
