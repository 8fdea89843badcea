"""The default sandbox: bubblewrap with one living supervisor a box."""

from __future__ import annotations

from rover.sandbox.protocol import Files, Probe, Sandbox
from rover.sandbox.runtime_id import runtime_id
from rover_store.errors import SandboxError
from rover_store.records import Limits


class BubblewrapRuntime:
    """Boxes of bubblewrap."""

    kind = "bubblewrap"

    def probe(self) -> Probe:
        return Probe("bubblewrap", False, "not built yet")

    def runtime_id(self) -> str:
        return runtime_id("bubblewrap", 1, ())

    def open(self, files: Files, *, limits: Limits | None = None) -> Sandbox:
        raise SandboxError("not built yet")

    def close(self) -> None:
        """Nothing is open."""
