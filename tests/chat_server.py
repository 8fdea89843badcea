"""A scripted server of chat completions: what an agent program's model says, and what else a server may do.

    with ChatServer(step, step, ...) as server: server.url
    step        a message (text, or `call(...)`, or a list of calls), or ("status", code, text), "stall", "close",
                or a whole answer (a dict with `choices`)
    server.asked                 the requests that came, as JSON
The last step is repeated. It knows no conversation: one step a request, in order.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: tokens of each answer
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def call(command: str, *, name: str = "bash", number: str = "") -> dict[str, Any]:
    """A call of a tool with a command."""
    arguments = json.dumps({"command": command})
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


def completion(step: Any, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": step if isinstance(step, str) else "Next."}
    calls = [step] if isinstance(step, dict) else step if isinstance(step, list) else []
    if calls:
        message["tool_calls"] = [{**c, "id": c["id"] or f"call_{number}_{n}"} for n, c in enumerate(calls)]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {
        "id": f"chatcmpl-{number}", "object": "chat.completion", "created": 0, "model": "scripted",
        "choices": [choice], "usage": USAGE,
    }  # fmt: skip


class ChatServer:
    def __init__(self, *steps: Any) -> None:
        self.steps = steps
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.over = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> ChatServer:
        owner = self

        class Handler(_Handler):
            chat = owner

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self._http.shutdown()
        self._http.server_close()

    def next(self, asked: dict[str, Any], key: str) -> tuple[Any, int]:
        with self._lock:
            self.asked.append(asked)
            self.keys.append(key)
            number = len(self.asked)
        return self.steps[min(number, len(self.steps)) - 1], number

    def restart(self) -> None:
        """Begin the script again."""
        with self._lock:
            self.asked.clear()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    chat: ChatServer

    def log_message(self, format: str, *args: object) -> None:
        return

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        step, number = self.chat.next(asked, self.headers.get("Authorization", ""))
        if step == "stall":
            self.chat.over.wait(60)
        if step in ("stall", "close"):
            self.close_connection = True
        elif isinstance(step, tuple):
            self._answer(step[1], {"error": {"message": step[2]}})
        else:
            whole = isinstance(step, dict) and "choices" in step
            self._answer(200, step if whole else completion(step, number))

    def _answer(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
