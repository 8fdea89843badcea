"""The error where nothing but failures of the infrastructure came back: that of a server, or that of the sandbox."""

from __future__ import annotations

from rover_store.errors import ProviderError, RoverError, SandboxError


def failure(said: str, reason: str) -> RoverError:
    """`reason`: what a rollout that was spoilt says of itself; it begins with the kind of its error."""
    kind = ProviderError if reason.startswith("ProviderError") else SandboxError
    return kind(f"{said}: {reason}")
