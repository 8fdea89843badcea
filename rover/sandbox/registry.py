"""Which runtime a name stands for. A kind that is named is the only one that is tried: nothing falls back from it.

`auto`, the default, is the first of AUTO whose probe works here. What was passed over goes once a process to the log
of this module, which whoever speaks to people may show.
"""

from __future__ import annotations

import importlib
import logging
import sys
from importlib.metadata import entry_points

from rover.sandbox.protocol import Runtime
from rover_store.errors import RoverError, SandboxError, UsageError

DEFAULT = "auto"
#: Strongest first; docker last, as every command goes through its engine.
AUTO = ("bubblewrap", "landlock", "docker")
GROUP = "rover.sandboxes"
#: Kind -> module and class. Each module is imported only when its kind is asked for.
KNOWN = {
    "bubblewrap": ("rover.sandbox.bubblewrap", "BubblewrapRuntime"),
    "landlock": ("rover.sandbox.landlock.runtime", "LandlockRuntime"),
    "docker": ("rover.sandbox.docker.runtime", "DockerRuntime"),
    "local": ("rover.sandbox.local", "LocalRuntime"),
}
log = logging.getLogger("rover.sandbox")
_passed_over: dict[str, str] = {}  # kind -> why, in this process


def make_runtime(kind: str | None = None) -> Runtime:
    """The runtime of this kind; for `auto` one that was proved to work, else not yet probed. UsageError for a kind
    that nothing provides, SandboxError where `auto` finds none."""
    kind = kind or DEFAULT
    if kind == "auto":
        return _first()
    if kind in KNOWN:
        module, name = KNOWN[kind]
        made: Runtime = getattr(importlib.import_module(module), name)()
        return made
    for point in entry_points(group=GROUP, name=kind):
        runtime = point.load()()
        if not isinstance(runtime, Runtime):
            raise SandboxError(f"sandbox {kind}: {point.value} is not a Runtime")
        return runtime
    raise UsageError(f"no sandbox of kind {kind!r}", hint=f"known kinds: auto, {', '.join(kinds())}")


def open_runtime(kind: str | None = None) -> Runtime:
    """The runtime of this kind (default `auto`), proved to work by starting one box.

    SandboxError with one line and what to do where this machine cannot run it.
    """
    if (kind or DEFAULT) == "auto":
        return _first()
    runtime = make_runtime(kind)
    probe = runtime.probe()
    if not probe.works:
        raise SandboxError(
            f"the {probe.kind} sandbox cannot run here: {probe.reason}", hint="`rover doctor` says more"
        )
    return runtime


def kinds() -> tuple[str, ...]:
    """Names of all kinds that are installed; `local` is for tests only."""
    return (*KNOWN, *sorted({p.name for p in entry_points(group=GROUP)} - set(KNOWN)))


def _first() -> Runtime:
    """The first kind of AUTO that works. One that did not is not tried again in this process."""
    new: list[str] = []
    for kind in AUTO:
        if kind in _passed_over:
            continue
        try:
            runtime = make_runtime(kind)
            probe = runtime.probe()
        except (RoverError, ImportError) as error:
            reason = str(error)
        else:
            if probe.works:
                if new:
                    log.info("%s is used: %s cannot run here; `rover doctor` says why", kind, ", ".join(new))
                return runtime
            runtime.close()
            reason = probe.reason
        _passed_over[kind] = reason
        new.append(kind)
    if sys.platform != "linux":
        raise SandboxError(
            f"no sandbox runs here: on this system docker is the way; {_passed_over['docker']}",
            hint="install and start Docker, then run `rover doctor`",
        )
    raise SandboxError(
        "no sandbox runs here: " + "; ".join(f"{kind}: {reason}" for kind, reason in _passed_over.items()),
        hint="`rover doctor` says what to do",
    )
