"""JSON over HTTP to a model server: connections kept by thread, bounded in time and size, tried again with pauses.

Every request ends in its time, a byte now and then or not, and so do all tries of one call together. After a call
that waited in vain, the next ones get one short try until the server answers again: many lanes, each tried again, do
not wait for hours.

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
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from rover.policy.exchange import pause
from rover_store.errors import ProviderError, UsageError
from rover_train.sample.link import Link, SecureLink

_AGAIN = frozenset({408, 409, 425, 429})
#: no answer is larger; a token with its log-probability takes some thirty bytes
_LARGEST = 16 << 20
#: what an error says is in its first bytes
_LARGEST_ERROR = 64 << 10
#: share of a request's time that a server gets which did not answer before
_SHORT = 0.25
#: what http.client raises for what a server sends; a length or a chunk that is no number is a ValueError
_BROKEN = (OSError, http.client.HTTPException, ValueError, OverflowError)
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
        try:
            text = value if isinstance(value, str) else json.dumps(value)
        except RecursionError:
            text = "JSON that is too deep"
        said = " ".join(f"HTTP {self.status}: {text[:2000]}".split())[:300]
        return said.encode("utf-8", "replace").decode()


class Wire:
    """`server` is the address up to /v1 or without it. Any thread may call; `close` ends all tries."""

    def __init__(
        self,
        server: str,
        key: str = "",
        *,
        request_s: float = 300.0,
        total_s: float = 600.0,
        retries: int = 5,
        backoff_s: float = 0.5,
    ) -> None:
        """`request_s` bounds one request, `total_s` all tries of a call with the pauses between them."""
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
        self._total_s = total_s
        self._retries = retries
        self._backoff_s = backoff_s
        self._mine = threading.local()
        self._links: set[Link] = set()
        #: the last call that gave up was waiting still, and no answer came since
        self._silent = False
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
        problem, stalled = "", False
        short = self._silent
        tries = 1 if short else self._retries + 1
        each = self._request_s * (_SHORT if short else 1)
        end = time.monotonic() + self._total_s
        for attempt in range(tries):
            wait: float | None = None
            until = min(time.monotonic() + each, end)
            try:
                status, headers, data = self._once(method, path, body, until)
            except _BROKEN as error:
                self._drop()
                stalled = isinstance(error, TimeoutError) or time.monotonic() >= until
                problem = "no answer in time" if stalled else _named(error)
            else:
                stalled = self._silent = False
                reply = Reply(status, _parsed(data))
                if status not in _AGAIN and status < 500:
                    return reply
                problem, wait = reply.said, pause(headers.get("retry-after"))
            rest = min(self._backoff_s * 2**attempt, _LONGEST_S) if wait is None else wait
            if attempt + 1 == tries or time.monotonic() + rest >= end:
                break
            if self._closed.wait(rest):
                break
        if self._closed.is_set():
            problem = "the request was cancelled"
        self._silent = self._silent or stalled
        raise ProviderError(f"{self.server}: {problem}")

    def _once(
        self, method: str, path: str, body: bytes | None, until: float
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        link = self._link()
        link.until = until
        link.request(method, self._prefix + path, body, self._headers)
        with link.getresponse() as response:
            most = _LARGEST if response.status < 400 else _LARGEST_ERROR
            data = response.read(most + 1)
            if len(data) > most:
                if response.status < 400:
                    raise http.client.HTTPException(f"an answer of more than {most} bytes")
                self._drop()
                data = data[:most]
            elif response.length:  # a bounded read does not tell
                raise http.client.IncompleteRead(data, response.length)
            return response.status, response.headers, data

    def _link(self) -> Link:
        link: Link | None = getattr(self._mine, "link", None)
        if link is None:
            if self._tls is not None:
                link = SecureLink(self._host, self._port, context=self._tls)
            else:
                link = Link(self._host, self._port)
            self._mine.link = link
            self._links.add(link)
        return link

    def _drop(self) -> None:
        link = getattr(self._mine, "link", None)
        if link is not None:
            link.close()
            self._links.discard(link)
            self._mine.link = None


def _named(error: Exception) -> str:
    text = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _parsed(data: bytes) -> Any:
    text = data.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
