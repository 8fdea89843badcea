"""An agent program that runs in a box, as the host sees it: started through its relay, heard, told, ended.

The relay's code goes into the box over the channel: a box shows rover's own code to no command. What comes back is
bounded in size and never trusted; whatever it is, it is a request of the agent or nothing.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from rover.harness.relay import frames
from rover.sandbox.protocol import Completed, Sandbox
from rover_store.errors import SandboxError
from rover_store.records import Limits

#: in the order in which they are loaded
MODULES = ("frames", "http", "guard", "inside")
#: loads the relay's modules from the first message, and runs it
BOOT = """
import json, os, socket, struct, sys, types
channel = socket.socket(fileno=int(os.environ["ROVER_CHANNEL"]))
channel.set_inheritable(False)
def exactly(n):
    data = b""
    while len(data) < n:
        piece = channel.recv(n - len(data))
        if not piece:
            os._exit(1)
        data += piece
    return data
head, body = struct.unpack(">II", exactly(8))
exactly(head)
sent = json.loads(exactly(body))
package = sys.modules["relay"] = types.ModuleType("relay")
package.__path__ = []
for name, text in sent["modules"]:
    module = types.ModuleType("relay." + name)
    module.__package__ = "relay"
    sys.modules["relay." + name] = module
    setattr(package, name, module)
    exec(compile(text, "relay/" + name + ".py", "exec"), module.__dict__)
package.inside.main(channel, sent["config"])
"""
#: seconds that the relay has to end an agent and itself, beyond its own patience
ENDING_S = 8.0
#: seconds that it may take to read an answer
SENDING_S = 30.0


class Gone(Exception):  # each caller decides what that means
    """The relay hung up, or sent what is no message."""


class LiveAgent:
    """A running agent. `ended` is called, on another thread, when its command is over."""

    def __init__(
        self, box: Sandbox, config: dict[str, Any], limits: Limits, ended: Callable[[], None] = lambda: None
    ) -> None:
        self._box = box
        self._near, self._far = socket.socketpair()
        self._incoming = frames.Incoming(frames.MAX_OUT)
        self._heard: list[frames.Message] = []
        self._limits = limits
        self._ended = ended
        self._done: Completed | SandboxError | None = None
        #: the box had to be reset to end it: the workspace is that of the start again
        self.lost = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agent", daemon=True)
        self._thread.start()
        with contextlib.suppress(Gone):  # how the command ended says why
            self._send(frames.pack({}, json.dumps({"modules": modules(), "config": config}).encode()))

    def hear(self, seconds: float) -> frames.Message | None:
        """The next message; None where none came in time. Gone where there will be no more."""
        while not self._heard:
            self._near.settimeout(seconds)
            try:
                data = self._near.recv(1 << 16)
            except TimeoutError:
                return None
            except OSError:
                raise Gone from None
            if not data:
                raise Gone
            try:
                self._heard += self._incoming.feed(data)
            except frames.Broken:
                raise Gone from None
        return self._heard.pop(0)

    def answer(self, request: int, status: int, kind: str, body: bytes) -> None:
        """Answer a request. Gone where nobody reads it."""
        self._send(frames.pack({"id": request, "status": status, "type": kind}, body))

    def over(self) -> bool:
        """Whether the command has ended."""
        return self._over.is_set()

    def stop(self) -> None:
        """Ask the relay to end the agent."""
        with contextlib.suppress(Gone):
            self._send(frames.pack({"stop": True}))

    def wait(self, seconds: float) -> bool:
        """Whether the command ended within this time."""
        return self._over.wait(seconds)

    def result(self) -> Completed:
        """How the command ended. SandboxError where the box failed."""
        self._thread.join()
        if isinstance(self._done, SandboxError):
            raise self._done
        assert self._done is not None
        return self._done

    def close(self) -> None:
        """Hang up: the relay ends, and the agent with it. The workspace stays, unless it is `lost`."""
        self._near.close()
        if not self.wait(ENDING_S):
            self.lost = True
            with contextlib.suppress(SandboxError):
                self._box.reset()
        self._thread.join()

    def _run(self) -> None:
        try:
            argv = ["python3", "-I", "-S", "-c", BOOT]
            self._done = self._box.run(argv, limits=self._limits, channel=self._far)
        except SandboxError as error:
            self._done = error
        except BaseException as error:  # nothing may be lost with a thread
            self._done = SandboxError(f"{type(error).__name__}: {error}")
        finally:
            self._far.close()
            self._over.set()
            self._ended()

    def _send(self, data: bytes) -> None:
        self._near.settimeout(SENDING_S)
        try:
            self._near.sendall(data)
        except OSError:
            raise Gone from None


@lru_cache(maxsize=1)
def modules() -> list[tuple[str, str]]:
    """The relay's modules: name and text."""
    folder = Path(frames.__file__).parent
    return [(name, (folder / f"{name}.py").read_text(encoding="utf-8")) for name in MODULES]
