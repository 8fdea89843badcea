"""Which runtime a name stands for. The named one alone is loaded; there is no falling back to another."""

from __future__ import annotations

from importlib.metadata import entry_points

from rover.sandbox.protocol import Runtime
from rover_store.errors import SandboxError, UsageError

DEFAULT = "bubblewrap"
GROUP = "rover.sandboxes"


def make_runtime(kind: str | None = None) -> Runtime:
    """The runtime of this kind, not yet probed. UsageError for a kind that nothing provides."""
    kind = kind or DEFAULT
    if kind == "bubblewrap":
        from rover.sandbox.bubblewrap import BubblewrapRuntime

        return BubblewrapRuntime()
    if kind == "docker":
        from rover.sandbox.docker.runtime import DockerRuntime

        return DockerRuntime()
    if kind == "landlock":
        from rover.sandbox.landlock.runtime import LandlockRuntime

        return LandlockRuntime()
    if kind == "local":
        from rover.sandbox.local import LocalRuntime

        return LocalRuntime()
    for point in entry_points(group=GROUP, name=kind):
        runtime = point.load()()
        if not isinstance(runtime, Runtime):
            raise SandboxError(f"sandbox {kind}: {point.value} is not a Runtime")
        return runtime
    raise UsageError(f"no sandbox of kind {kind!r}", hint=f"known kinds: {', '.join(kinds())}")


def open_runtime(kind: str | None = None) -> Runtime:
    """The runtime of this kind (default bubblewrap), proved to work by starting one box.

    SandboxError with one line and what to do where this machine cannot run it.
    """
    runtime = make_runtime(kind)
    probe = runtime.probe()
    if not probe.works:
        raise SandboxError(
            f"the {probe.kind} sandbox cannot run here: {probe.reason}", hint="`rover doctor` says more"
        )
    return runtime


def kinds() -> tuple[str, ...]:
    """Names of all kinds that are installed; `local` is for tests only."""
    return ("bubblewrap", "local", *sorted({p.name for p in entry_points(group=GROUP)} - {"bubblewrap", "local"}))
