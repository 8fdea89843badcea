"""The sandbox without user namespaces, see the package. Chosen by `auto` where bubblewrap cannot run."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import sys
import threading
import weakref
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rover.sandbox import layout as layouts
from rover.sandbox.box import last_words
from rover.sandbox.companion import START_S, Companion
from rover.sandbox.inside import frames
from rover.sandbox.landlock import level as levels
from rover.sandbox.landlock.box import LandlockSandbox
from rover.sandbox.landlock.view import Sources
from rover.sandbox.protocol import Files, Place, Probe
from rover.sandbox.remedies import explain
from rover.sandbox.runtime_id import runtime_id
from rover.sandbox.trial import problem
from rover_store.errors import SandboxError
from rover_store.ids import digest
from rover_store.records import Limits


class LandlockRuntime:
    """Opens boxes through a keeper process, started when first needed. Safe to share between threads.

    `level` may be set lower than what the kernel has, to see what an older one would do.
    """

    kind = "landlock"
    unmet = levels.UNMET
    offers: tuple[str, ...] = ()

    def __init__(self, *, level: int | None = None) -> None:
        self._level = level
        self._lock = threading.Lock()
        self._keepers: dict[tuple[str, ...], _Keeper] = {}  # by what they show
        self._boxes: weakref.WeakSet[LandlockSandbox] = weakref.WeakSet()

    @property
    def level(self) -> int:
        found = levels.level()
        return found if self._level is None else min(found, self._level)

    def probe(self) -> Probe:
        reason = problem(self, "chmod 600 probe")
        offers = () if reason else self.offers
        return Probe(self.kind, not reason, reason, levels.tier(self.level), self.unmet, offers)

    def runtime_id(self) -> str:
        """Also of what the kernel gives at its level and of the wheel that asks for it: a program meets both."""
        common = runtime_id(self.kind, levels.tier(self.level), self.unmet, beside=("sandbox/landlock",))
        return digest({"runtime": common, "kept": levels.kept(self.level), "sandlock": version_of("sandlock")})

    def open(self, files: Files, *, limits: Limits | None = None, place: Place | None = None) -> LandlockSandbox:
        place = place or Place()
        shows = _shows(place)
        config = {"level": self.level, "shows": shows, "env": layouts.ENVIRONMENT}
        near, far = socket.socketpair()
        errors = os.memfd_create("errors")
        try:
            with far:
                self._start(shows).ask(config, [far.fileno(), errors])
            near.settimeout(START_S)
            hello = frames.receive(near)
        except (frames.Closed, TimeoutError):
            said = last_words(errors) or "it did not start"
            near.close()
            os.close(errors)
            raise SandboxError(explain(said)) from None
        except BaseException:
            near.close()
            os.close(errors)
            raise
        env = {**hello.head["env"], **dict(place.env)}
        box = LandlockSandbox(near, hello.fds[0], errors, limits or Limits(), env)
        self._boxes.add(box)
        try:
            box.reset(files)
        except BaseException:
            box.close()
            raise
        return box

    def close(self) -> None:
        for box in list(self._boxes):
            box.close()
        with self._lock:
            keepers = list(self._keepers.values())
            self._keepers.clear()
        for keeper in keepers:
            keeper.close()

    def _start(self, shows: tuple[str, ...]) -> _Keeper:
        with self._lock:
            keeper = self._keepers.get(shows)
            if keeper is None or not keeper.usable():
                self._check()
                keeper = self._keepers[shows] = _Keeper(shows)
            return keeper

    def _check(self) -> None:
        """SandboxError with what to do, where this machine cannot have it."""
        if sys.platform != "linux":
            raise SandboxError("Landlock is a part of Linux; use Docker: --sandbox docker")
        if importlib.util.find_spec("sandlock") is None:
            raise SandboxError("sandlock is not installed; pip install 'workrover[landlock]'")
        if self.level < levels.LEAST:
            found = f"level {self.level}" if self.level else "none, or a container forbids it"
            raise SandboxError(
                f"this kernel's Landlock is too old: {found}; Linux {levels.LEAST_KERNEL} or newer, "
                "with `landlock` among the boot parameter lsm="
            )


def version_of(library: str) -> str:
    """Of an installed library; `absent` where it is not."""
    try:
        return version(library)
    except PackageNotFoundError:
        return "absent"


class _Keeper(Companion):
    """The keeper process, see rover.sandbox.landlock.keeper."""

    def __init__(self, shows: tuple[str, ...]) -> None:
        layouts.compile_inside()
        home = Path(layouts.package_folder("rover")).parent
        argument = {"home": str(home), "sources": sources().record(), "shows": shows}
        super().__init__(Path(__file__).with_name("keeper.py"), json.dumps(argument))


def sources() -> Sources:
    """Where things lie for this interpreter and installation."""
    prefixes = sorted({os.path.realpath(p) for p in (sys.base_prefix, sys.base_exec_prefix)})
    spec = importlib.util.find_spec("sandlock")
    assert spec is not None, "checked before"
    assert spec.origin is not None
    return Sources(
        python=os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable),
        prefixes=tuple(p for p in prefixes if p not in ("/", "/usr") and not p.startswith("/usr/")),
        sites=tuple(layouts.site_folders()),
        rover=layouts.package_folder("rover"),
        rover_store=layouts.package_folder("rover_store"),
        sandlock=str(Path(spec.origin).parent.parent),
    )


def _shows(place: Place) -> tuple[str, ...]:
    """The folders that a place shows: at their own paths, as nothing can stand anywhere else."""
    if place.image or place.build:
        raise SandboxError("the landlock sandbox has no images", hint="run it with --sandbox docker")
    if place.links:
        paths = ", ".join(path for path, _ in place.links)
        raise SandboxError(
            f"the landlock sandbox cannot have the workspace at {paths}", hint="run it with --sandbox docker"
        )
    found: list[str] = []
    for source, target in place.shows:
        if not os.path.isdir(source):
            raise SandboxError(f"{source} is no folder of this machine")
        real = os.path.realpath(source)
        if real != os.path.realpath(target):
            raise SandboxError(f"the landlock sandbox shows {source} at its own path alone, not at {target}")
        found += [real, target]  # the real one first: links of the other may lead through it
    return tuple(dict.fromkeys(found))
