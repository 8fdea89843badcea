"""The tool servers of one rollout, seen from the loop: started in its box, asked over a channel, ended with it.

Whose fault it is. A server is part of the harness. One that does not start, does not answer the greeting, or offers
what no tool can be, is a HarnessError, and so is an answer that is none of the protocol: the rollout is an
infra_error. What happens in a call is an output like that of any tool, since the policy chose the call: a tool that
says it failed, a call that takes longer than it may, a server that ends or is ended by a limit (it stays ended). Were
that an infra_error, a policy could rid itself of a rollout by breaking a server.
"""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import struct
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rover.harness import mcp
from rover.harness.manifest import is_script
from rover.harness.mcp import schema
from rover.harness.mcp.offer import Tool, tools_of
from rover.policy.protocol import ToolSpec
from rover.sandbox.protocol import Completed, Sandbox
from rover_store.errors import HarnessError, SandboxError
from rover_store.records import Harness, Limits

#: seconds that all servers together may take to start and to say what they offer
START_S = 60.0
#: seconds that they get to end by themselves
END_S = 3.0
#: seconds beyond its own limit after which the program in the box is given up
PATIENCE = 30.0
#: bytes of an answer of the program in the box
ANSWER = 128 << 20

_SIZE = struct.Struct(">I")
_MODULES = ("peer", "blocks", "inside")
_STARTER = """\
import json, sys, types
for name, text in json.load(sys.stdin).items():
    sys.modules[name] = module = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
module.main()
"""

Answer = dict[str, Any]


class Servers:
    """The servers that a harness names, running in a box."""

    def __init__(self, box: Sandbox, harness: Harness, carried: Mapping[str, bytes], seconds: float) -> None:
        """Start them all. `carried` are files that the package brings for them, `seconds` is what the rollout may
        take. HarnessError where one does not start."""
        self._box = box
        self._program = _Program(box, _lasting(harness.limits, seconds))
        try:
            self._tools = {tool.spec.name: tool for tool in self._start(harness, carried)}
        except BaseException:
            self.close()
            raise

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What they offer to a policy."""
        return tuple(tool.spec for tool in self._tools.values())

    def __contains__(self, tool: str) -> bool:
        return tool in self._tools

    def argument_error(self, tool: str, arguments: dict[str, Any]) -> str:
        """Why these arguments do not fit a tool's schema, in one line; empty where they may."""
        return schema.argument_error(self._tools[tool].spec.parameters, arguments)

    def call(self, tool: str, arguments: dict[str, Any], limits: Limits) -> Answer:
        """What a tool says: status, output, truncated."""
        found = self._tools[tool]
        request = {"do": "call", "server": found.server, "tool": found.name, "arguments": arguments}
        bounds = {"seconds": limits.wall_s, "output_bytes": limits.output_bytes}
        try:
            answer = self._program.ask({**request, **bounds}, limits.wall_s)
        except _Over as error:
            return _failed(tool, str(error))
        if "broken" in answer:
            raise HarnessError(f"tool server {answer['broken']}")
        status, output, truncated = (answer.get(name) for name in ("status", "output", "truncated"))
        if status not in ("ok", "error") or not isinstance(output, str):
            raise HarnessError("the program that keeps the tool servers gave no answer")
        if "failed" in answer:
            return _failed(tool, output)
        return {"status": status, "output": output, "truncated": bool(truncated)}

    def end(self) -> None:
        """Let them end by themselves, and write what they still hold."""
        with contextlib.suppress(_Over):
            self._program.ask({"do": "close", "seconds": END_S}, END_S)
        self.close()

    def close(self) -> None:
        """End them."""
        if not self._program.close():
            with contextlib.suppress(SandboxError):
                self._box.reset()  # it ends whatever lives in the box

    def _start(self, harness: Harness, carried: Mapping[str, bytes]) -> tuple[Tool, ...]:
        servers = mcp.started(harness)
        files = {
            path: [base64.b64encode(data).decode(), is_script(data)]
            for path, data in carried.items()
        }
        try:
            folder = self._program.ask({"do": "lay", "folder": mcp.FOLDER, "files": files}, START_S).get("folder", "")
            commands = []
            for server in servers:
                command, env = mcp.filled(server, str(folder))
                env = {mcp.FOLDER_VARIABLE: str(folder), **env}
                commands.append({"name": server.name, "command": command, "env": env})
            answer = self._program.ask({"do": "start", "servers": commands, "seconds": START_S}, START_S)
        except _Over as error:
            raise HarnessError(f"the tool servers did not start: {error}") from None
        if "error" in answer:
            raise HarnessError(f"tool server {str(answer['error'])[:1000]}")
        listed = answer.get("tools")
        if not isinstance(listed, dict):
            raise HarnessError("the program that keeps the tool servers gave no list of tools")
        return tools_of(listed, harness.tools)


class _Over(Exception):
    """The program in the box was ended by a limit, or by somebody there."""


class _Program:
    """The program in the box, on a thread of its own, and the channel to it."""

    def __init__(self, box: Sandbox, limits: Limits) -> None:
        self._box = box
        self._limits = limits
        self._done: Completed | None = None
        self._error: BaseException | None = None
        self._near, self._far = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="tool-servers", daemon=True)
        self._thread.start()

    def ask(self, request: dict[str, Any], seconds: float) -> Answer:
        """One exchange. _Over where the program is gone through no fault of ours."""
        data = json.dumps(request).encode()
        try:
            self._near.settimeout(seconds + PATIENCE)
            self._near.sendall(_SIZE.pack(len(data)) + data)
            (size,) = _SIZE.unpack(self._exactly(_SIZE.size))
            if size > ANSWER:
                raise HarnessError(f"an answer of the tool servers holds {size} bytes")
            answer = json.loads(self._exactly(size))
        except TimeoutError:
            raise SandboxError("the program that keeps the tool servers does not answer") from None
        except (EOFError, OSError):
            raise self._gone() from None
        except (ValueError, RecursionError):
            raise HarnessError("the program that keeps the tool servers answered nonsense") from None
        if not isinstance(answer, dict):
            raise HarnessError("the program that keeps the tool servers answered nonsense")
        return answer

    def close(self) -> bool:
        """Hang up, which ends it; False where it still runs."""
        self._near.close()
        self._thread.join(END_S)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with self._far:
                sources = json.dumps(_sources()).encode()
                argv = ["python3", "-I", "-S", "-c", _STARTER]
                self._done = self._box.run(argv, stdin=sources, limits=self._limits, channel=self._far)
        except BaseException as error:
            self._error = error

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._near.recv(min(size - len(data), 1 << 20))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def _gone(self) -> Exception:
        """Why it is gone."""
        self._thread.join(PATIENCE)
        error, done = self._error, self._done
        if isinstance(error, SandboxError):
            return error
        if error is not None:
            return HarnessError(f"the tool servers cannot run here: {type(error).__name__}: {error}")
        if done is None:
            return SandboxError("the program that keeps the tool servers hung up")
        if done.breach == "cancelled":
            return SandboxError("the box was closed meanwhile")
        if done.breach:
            return _Over(f"limit reached: {done.breach}")
        if done.exit_code is not None and done.exit_code > 128:
            return _Over("the tool servers were killed")
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        return HarnessError(f"the program that keeps the tool servers failed: {' '.join(said)[:300] or done.exit_code}")


def _lasting(limits: Limits, seconds: float) -> Limits:
    """Limits of what lives as long as a rollout: memory and processes are shared, time is that of all its calls."""
    wall = seconds + START_S + PATIENCE
    return limits.model_copy(update={"wall_s": wall, "cpu_s": max(limits.cpu_s, wall)})


def _failed(tool: str, reason: str) -> Answer:
    return {"status": "error", "output": f"{tool} failed: {reason}", "truncated": False}


@cache
def _sources() -> dict[str, str]:
    """The program as text, module by module, the one to run last."""
    folder = Path(__file__).parent
    return {f"{__package__}.{name}": (folder / f"{name}.py").read_text("utf-8") for name in _MODULES}
