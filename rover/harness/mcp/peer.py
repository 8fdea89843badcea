"""One tool server as its client sees it: a process that speaks JSON-RPC, a message a line, over its standard streams.

Runs in the box, with the standard library alone (see `inside`). Nothing is read of a server beyond MESSAGE bytes at
once, and while nobody waits for it, it is not read at all: one that floods fills its pipe and stands still.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # the import would cost as much as all others
    from typing import Any

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
#: bytes of one message of a server; a longer one is skipped
MESSAGE = 16 << 20
#: what may wait for a server that does not read its input
WAITING = 4 << 20
#: pages of one list of tools, and tools of one server, that are read
PAGES, TOOLS = 64, 1000
#: bytes of a server's last words
WORDS = 2000
METHOD_NOT_FOUND = -32601


class Ended(Exception):
    """A server ended, or closed its streams."""


class Late(Exception):
    """A server did not answer in time."""


class Broken(Exception):
    """What a server answered is none of the protocol."""


class Refused(Exception):
    """A server answered a request with an error."""


class Large(Exception):
    """A server's answer was longer than anything that is read."""


class Server:
    """One server: its process, its streams, and the one request that it may owe an answer to."""

    def __init__(self, name: str, command: list[str], env: dict[str, str]) -> None:
        self.name = name
        self.said = b""  # the end of its standard error
        self.noise = 0  # lines that were no JSON
        self.tail = bytearray()  # of a line that has not ended yet
        self.skipping = False  # inside a line that is too long
        self.queue = bytearray()
        self.next = 0
        self.waits: int | None = None  # id of the request
        self.answer: dict[str, Any] | None = None
        self.large = False
        self.status: int | None = None  # how it ended
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
        (stdin, self.stdin), (self.stdout, stdout), (self.stderr, stderr) = pipes
        actions = [(os.POSIX_SPAWN_DUP2, fd, n) for n, fd in enumerate((stdin, stdout, stderr))]
        signals = [signal.SIGINT, signal.SIGPIPE]
        try:
            self.pid = os.posix_spawnp(command[0], command, env, file_actions=actions, setsigdef=signals)
        except (OSError, ValueError) as error:
            raise Ended(f"cannot be started: {getattr(error, 'strerror', None) or error}") from None
        finally:
            for fd in (stdin, stdout, stderr):
                os.close(fd)
        for fd in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(fd, False)

    # --- requests ----------------------------------------------------------------------------------------
    def ask(self, method: str, params: dict[str, Any], until: float) -> dict[str, Any]:
        """The result of a request."""
        self.next += 1
        self.waits, self.answer, self.large = self.next, None, False
        self.send({"id": self.next, "method": method, "params": params})
        try:
            while self.answer is None and not self.large:
                self.pump(until)
        finally:
            self.waits = None
        if self.large:
            raise Large
        answer, self.answer = self.answer, None
        if "error" in answer:
            error = answer["error"]
            raise Refused(str(error.get("message", "an error")) if isinstance(error, dict) else "an error")
        result = answer.get("result")
        if not isinstance(result, dict):
            raise Broken(f"its answer to {method} holds no result")
        return result

    def send(self, message: dict[str, Any]) -> None:
        self.queue += json.dumps(dict(message, jsonrpc="2.0")).encode() + b"\n"
        self.write()

    def write(self) -> None:
        try:
            while self.queue and self.stdin >= 0:
                del self.queue[: os.write(self.stdin, self.queue)]
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass
        self.queue.clear()  # all is written, or nobody reads it

    def pump(self, until: float) -> None:
        """Read and write what goes at once, waiting for it until then."""
        left = until - time.monotonic()
        if left <= 0:
            raise Late
        poll = select.poll()
        poll.register(self.stdout, select.POLLIN)
        if self.stderr >= 0:
            poll.register(self.stderr, select.POLLIN)
        if self.queue:
            poll.register(self.stdin, select.POLLOUT)
        for fd, _ in poll.poll(left * 1000 + 0.5):
            if fd == self.stdout:
                self.read()
            elif fd == self.stderr:
                self.listen()
            elif fd == self.stdin:
                self.write()

    def read(self) -> None:
        data = os.read(self.stdout, 1 << 16)
        if not data:
            raise Ended(self.end())
        *lines, rest = data.split(b"\n")
        for line in lines:
            if not self.skipping:
                self.take(bytes(self.tail + line))
            self.tail.clear()
            self.skipping = False
        if not self.skipping:
            self.tail += rest
        if len(self.tail) > MESSAGE:
            self.tail.clear()
            self.skipping = self.large = True

    def listen(self) -> None:
        data = os.read(self.stderr, 1 << 16)
        self.said = (self.said + data)[-WORDS:]
        if not data:
            os.close(self.stderr)
            self.stderr = -1

    def take(self, line: bytes) -> None:
        """One line of its output. What is no message of the protocol is passed over, as all clients do."""
        try:
            messages = json.loads(line)
        except (ValueError, RecursionError):
            self.noise += bool(line.strip())
            return
        for message in messages if isinstance(messages, list) else [messages]:
            if not isinstance(message, dict):
                self.noise += 1
            elif "method" not in message:
                if self.waits is not None and message.get("id") == self.waits:
                    self.answer = message
            elif isinstance(message.get("id"), (int, str)):
                self.reply(message)

    def reply(self, message: dict[str, Any]) -> None:
        """Answer what a server asks of its client: it is told of the workspace, and of nothing else."""
        answer: dict[str, Any] = {"id": message["id"]}
        if message["method"] == "ping":
            answer["result"] = {}
        elif message["method"] == "roots/list":
            answer["result"] = {"roots": [{"uri": "file://" + os.getcwd(), "name": "workspace"}]}
        else:
            answer["error"] = {"code": METHOD_NOT_FOUND, "message": "this client has no such method"}
        if len(self.queue) < WAITING:
            self.send(answer)

    # --- its life ----------------------------------------------------------------------------------------
    def end(self) -> str:
        """How it ended, in words. One that only closed its streams is ended."""
        until = time.monotonic() + 0.5
        while not self.gone() and time.monotonic() < until:
            time.sleep(0.005)
        if self.status is None:
            return "closed its output"
        with contextlib.suppress(OSError):
            for _ in range(64):  # others may still write there
                if self.stderr >= 0:
                    self.listen()
        if os.WIFSIGNALED(self.status):
            said = f"ended by signal {os.WTERMSIG(self.status)}"
        else:
            said = f"ended with exit code {os.WEXITSTATUS(self.status)}"
        return said + self.words()

    def words(self) -> str:
        lines = self.said.decode("utf-8", "replace").split("\n")
        last = [line.strip() for line in lines if line.strip()][-1:]
        return ": " + last[0][:300] if last else ""

    def gone(self) -> bool:
        if self.status is None:
            with contextlib.suppress(ChildProcessError):
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self.status = status if pid else None
        return self.status is not None

    # --- the protocol ------------------------------------------------------------------------------------
    def greet(self, until: float) -> bool:
        about = {"name": "rover", "version": "1"}
        asked = {"protocolVersion": VERSIONS[0], "capabilities": {"roots": {}}, "clientInfo": about}
        said = self.ask("initialize", asked, until)
        if said.get("protocolVersion") not in VERSIONS:
            raise Broken(f"it speaks version {str(said.get('protocolVersion'))[:40]!r} of the protocol")
        self.send({"method": "notifications/initialized"})
        capabilities = said.get("capabilities")
        return isinstance(capabilities, dict) and "tools" in capabilities

    def tools(self, until: float) -> list[dict[str, Any]]:
        """All its tools, page by page."""
        found: list[dict[str, Any]] = []
        params: dict[str, Any] = {}
        for _ in range(PAGES):
            page = self.ask("tools/list", params, until)
            tools = page.get("tools")
            if not isinstance(tools, list):
                raise Broken("its list of tools is none")
            for tool in tools:
                kept = tool if isinstance(tool, dict) else {}
                found.append({key: kept.get(key) for key in ("name", "title", "description", "inputSchema")})
            cursor = page.get("nextCursor")
            if cursor is None:
                return found
            if len(found) > TOOLS:
                raise Broken(f"it lists more than {TOOLS} tools")
            params = {"cursor": cursor}
        raise Broken(f"its list of tools has more than {PAGES} pages")
