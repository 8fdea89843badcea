"""What runs in the box for tool servers: one program that starts them, keeps them, and talks to them for the loop.

Standard library only. A command in a box sees no code of rover's, so this and the modules it imports are handed to the
box's Python as text (`sources`). It speaks with the loop over its channel: a length of four bytes, then JSON.

    {"do": "lay", "folder", "files": {path: [base64, program?]}}  -> {"folder": where they lie}
    {"do": "start", "servers": [{"name", "command", "env"}], "seconds": s}   -> {"tools": {name: [...]}} or {"error"}
    {"do": "call", "server", "tool", "arguments", "seconds": s, "output_bytes": n}
        -> {"status", "output", "truncated"}, or {"broken": reason} where the answer is none of the protocol
    {"do": "close", "seconds": s}  -> {"ended": all of them?}
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import socket
import struct
import time

from rover.harness.mcp.blocks import text_of
from rover.harness.mcp.peer import MESSAGE, Broken, Ended, Large, Late, Refused, Server

TYPE_CHECKING = False
if TYPE_CHECKING:  # the import would cost as much as all others
    from typing import Any

SIZE = struct.Struct(">I")


def failed(reason: str) -> dict[str, Any]:
    return {"status": "error", "output": reason, "truncated": False, "failed": True}


class Host:
    """The servers of one rollout, and the channel to its loop."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.servers: dict[str, Server] = {}
        self.folder = ""  # where carried files lie

    def serve(self) -> None:
        """Answer the loop until it is done, or gone."""
        while True:
            request = self.receive()
            try:
                data = json.dumps(getattr(self, "do_" + request["do"])(request)).encode()
            except RecursionError:
                reason = "a server's answer is nested too deeply"
                data = json.dumps({"error": reason, "broken": reason}).encode()
            self.channel.sendall(SIZE.pack(len(data)) + data)
            if request["do"] == "close":
                return

    def receive(self) -> dict[str, Any]:
        (size,) = SIZE.unpack(self.exactly(SIZE.size))
        request: dict[str, Any] = json.loads(self.exactly(size))
        return request

    def exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.channel.recv(min(size - len(data), 1 << 20))
            if not piece:
                self.clear()
                os._exit(0)  # the loop is gone
            data += piece
        return bytes(data)

    def do_lay(self, request: dict[str, Any]) -> dict[str, Any]:
        """Lay the files down that the harness carries: in the folder that is asked for, or a new one if it is there."""
        folder = request["folder"]
        try:
            os.mkdir(folder, 0o700)
        except OSError:
            import tempfile

            folder = tempfile.mkdtemp(prefix="mcp-")
        self.folder = folder
        for path, (text, program) in request["files"].items():
            where = os.path.join(folder, path)
            os.makedirs(os.path.dirname(where), exist_ok=True)
            with open(where, "wb") as stream:
                stream.write(base64.b64decode(text))
            os.chmod(where, 0o555 if program else 0o444)
        return {"folder": folder}

    def clear(self) -> None:
        """Leave nothing behind where /tmp is not this program's alone."""
        for parent, folders, files in os.walk(self.folder, topdown=False) if self.folder else ():
            with contextlib.suppress(OSError):
                for name in files:
                    os.unlink(os.path.join(parent, name))
                for name in folders:
                    os.rmdir(os.path.join(parent, name))
                os.rmdir(parent)

    def do_start(self, request: dict[str, Any]) -> dict[str, Any]:
        """Start all at once, so that their own preparations overlap; then greet each."""
        until = time.monotonic() + request["seconds"]
        base = {name: value for name, value in os.environ.items() if name != "ROVER_CHANNEL"}
        tools: dict[str, Any] = {}
        for server in request["servers"]:
            try:
                made = Server(server["name"], server["command"], dict(base, **server["env"]))
            except Ended as error:
                return {"error": f"{server['name']}: {error}"}
            self.servers[made.name] = made
        for server in self.servers.values():
            try:
                tools[server.name] = server.tools(until) if server.greet(until) else []
            except Ended as error:
                return {"error": f"{server.name} {error}"}
            except Late:
                noise = f" ({server.noise} lines of output were no messages)" if server.noise else ""
                why = f"did not answer within {request['seconds']:g} s"
                return {"error": f"{server.name} {why}{noise}{server.words()}"}
            except Large:
                return {"error": f"{server.name}: its list of tools is larger than {MESSAGE} bytes"}
            except (Refused, Broken) as error:
                return {"error": f"{server.name}: {error}"}
        return {"tools": tools}

    def do_call(self, request: dict[str, Any]) -> dict[str, Any]:
        server = self.servers[request["server"]]
        until = time.monotonic() + request["seconds"]
        try:
            result = server.ask("tools/call", {"name": request["tool"], "arguments": request["arguments"]}, until)
            output, status = text_of(result), "error" if result.get("isError") is True else "ok"
        except Refused as error:
            output, status = str(error), "error"
        except Ended as error:
            return failed(f"the server {server.name} {error}")
        except Late:
            server.send({"method": "notifications/cancelled", "params": {"requestId": server.next}})
            return failed("limit reached: wall")
        except Large:
            return failed(f"the answer was longer than {MESSAGE} bytes")
        except Broken as error:
            return {"broken": f"{server.name}: {error}"}
        data = output.encode("utf-8", "replace")
        limit = request["output_bytes"]
        text = data[:limit].decode("utf-8", "ignore")
        return {"status": status, "output": text, "truncated": len(data) > limit}

    def do_close(self, request: dict[str, Any]) -> dict[str, Any]:
        """Let the servers end by themselves: closing their input tells them to."""
        until = time.monotonic() + request["seconds"]
        for server in self.servers.values():
            os.close(server.stdin)
            server.stdin = -1
            server.queue.clear()
        for server in self.servers.values():
            while not server.gone() and time.monotonic() < until:
                with contextlib.suppress(Ended, Late):
                    server.pump(min(until, time.monotonic() + 0.02))
        self.clear()
        return {"ended": all(server.gone() for server in self.servers.values())}


def main() -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    channel = int(os.environ["ROVER_CHANNEL"])
    os.set_inheritable(channel, False)
    Host(socket.socket(fileno=channel)).serve()
