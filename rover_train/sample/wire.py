"""JSON over HTTP to a model server: connections kept by thread, bounded in time and size, tried again with pauses.

Statuses that say that trying again will not help are given back; what a server does wrong otherwise (refuses
connections, stalls, closes, fails) is a ProviderError once the tries are used up.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from rover.policy.exchange import pause
from rover_store.errors import ProviderError, UsageError

_AGAIN = frozenset({408, 409, 425, 429})
#: no answer is larger
_LARGEST = 64 << 20
#: no pause between tries is longer, unless the server asks for it
_LONGEST_S = 8.0


@dataclass(frozen=True, slots=True)
class Reply:
    """`value` is the parsed body, or its text where it is no JSON."""

    status: int
    value: Any

    @property
    def said(self) -> str:
        """What the server says went wrong, on one line."""
        value = self.value
        if isinstance(value, dict):
            value = value.get("error", value.get("message", value.get("detail", value)))
            value = value.get("message", value) if isinstance(value, dict) else value
        text = value if isinstance(value, str) else json.dumps(value)
        return " ".join(f"HTTP {self.status}: {text}".split())[:300]


class Wire:
    """`server` is the address up to /v1 or without it. Any thread may call; `close` ends all tries."""

    def __init__(
        self, server: str, key: str = "", *, request_s: float = 300.0, retries: int = 5, backoff_s: float = 0.5
    ) -> None:
        self.server = server.rstrip("/").removesuffix("/v1")
        parts = urlsplit(self.server)
        try:
            port = parts.port
        except ValueError:
            port = 0
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
            raise UsageError(f"server {server!r}: not an address", hint="such as http://127.0.0.1:8000")
        self._host, self._port, self._prefix = parts.hostname, port, parts.path
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        self._request_s = request_s
        self._retries = retries
        self._backoff_s = backoff_s
        self._mine = threading.local()
        self._links: set[http.client.HTTPConnection] = set()
        self._closed = threading.Event()

    def get(self, path: str) -> Reply:
        return self._tried("GET", path, None)

    def post(self, path: str, body: dict[str, Any]) -> Reply:
        return self._tried("POST", path, json.dumps(body).encode())

    def close(self) -> None:
        """Close all connections; whoever waits between two tries gets a ProviderError."""
        self._closed.set()
        while self._links:
            link = self._links.pop()
            with contextlib.suppress(OSError):
                if link.sock is not None:
                    link.sock.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads
            link.close()

    def _tried(self, method: str, path: str, body: bytes | None) -> Reply:
        problem = ""
        for attempt in range(self._retries + 1):
            wait: float | None = None
            try:
                status, headers, data = self._once(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            else:
                reply = Reply(status, _parsed(data))
                if status not in _AGAIN and status < 500:
                    return reply
                problem, wait = reply.said, pause(headers.get("retry-after"))
            if attempt < self._retries:
                backoff = min(self._backoff_s * 2**attempt, _LONGEST_S)
                if self._closed.wait(backoff if wait is None else wait):
                    problem = "the request was cancelled"
                    break
        raise ProviderError(f"{self.server}: {problem}")

    def _once(self, method: str, path: str, body: bytes | None) -> tuple[int, http.client.HTTPMessage, bytes]:
        link = self._link()
        link.request(method, self._prefix + path, body, self._headers)
        response = link.getresponse()
        data = response.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise http.client.HTTPException(f"an answer of more than {_LARGEST} bytes")
        if response.length:  # a bounded read does not tell
            raise http.client.IncompleteRead(data, response.length)
        return response.status, response.headers, data

    def _link(self) -> http.client.HTTPConnection:
        link: http.client.HTTPConnection | None = getattr(self._mine, "link", None)
        if link is None:
            if self._tls is not None:
                link = http.client.HTTPSConnection(self._host, self._port, timeout=self._request_s, context=self._tls)
            else:
                link = http.client.HTTPConnection(self._host, self._port, timeout=self._request_s)
            self._mine.link = link
            self._links.add(link)
        return link

    def _drop(self) -> None:
        link = getattr(self._mine, "link", None)
        if link is not None:
            link.close()
            self._links.discard(link)
            self._mine.link = None


def _parsed(data: bytes) -> Any:
    text = data.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except ValueError:
        return text
