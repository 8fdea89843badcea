"""HTTP/1.1 requests from bytes, strict and bounded: what is not sound is refused with a status, never guessed at.

Small on purpose: the clients are programs of one agent on one machine. No pipelining ahead of an answer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

MAX_HEAD = 32 << 10
MAX_BODY = 8 << 20
MAX_CHUNK_LINE = 1 << 10

_REASONS = {
    200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    408: "Request Timeout", 411: "Length Required", 413: "Content Too Large", 422: "Unprocessable Content",
    429: "Too Many Requests", 431: "Request Header Fields Too Large", 500: "Internal Server Error",
    501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable", 505: "HTTP Version Not Supported",
}  # fmt: skip
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Bad(Exception):
    """A request that is none. The connection ends after the answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Request(NamedTuple):
    method: str
    path: str
    body: bytes
    keep: bool  # the connection stays open after the answer


class Parser:
    """The requests of one connection."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: Any = None  # method, path, keep, length (None: chunked)
        self._chunks = bytearray()
        #: the client waits for leave to send its body
        self.expects = False

    @property
    def begun(self) -> bool:
        """Whether a part of a request is here."""
        return bool(self._buffer) or self._head is not None

    @property
    def held(self) -> int:
        """Bytes that are kept."""
        return len(self._buffer) + len(self._chunks)

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> Request | None:
        """The next request, None while it is not whole. Bad where it is none."""
        if self._head is None:
            while self._buffer[:2] == b"\r\n":  # an empty line between requests is common
                del self._buffer[:2]
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > MAX_HEAD:
                    raise Bad(431, "the head of the request has no end")
                if b"\n\n" in self._buffer:
                    raise Bad(400, "lines end in CR LF")
                return None
            if end > MAX_HEAD:
                raise Bad(431, "the head of the request is too long")
            self._head = self._read_head(bytes(self._buffer[:end]))
            del self._buffer[: end + 4]
        method, path, keep, length = self._head
        body = self._chunked() if length is None else self._plain(length)
        if body is None:
            return None
        self._head, self._chunks, self.expects = None, bytearray(), False
        return Request(method, path, body, keep)

    def _plain(self, length: int) -> bytes | None:
        if len(self._buffer) < length:
            return None
        body = bytes(self._buffer[:length])
        del self._buffer[:length]
        return body

    def _chunked(self) -> bytes | None:
        while True:
            end = self._buffer.find(b"\r\n")
            if end < 0 or end > MAX_CHUNK_LINE:
                if len(self._buffer) > MAX_CHUNK_LINE:
                    raise Bad(400, "a chunk without a size")
                return None
            size_text = bytes(self._buffer[:end]).partition(b";")[0].strip()
            if not size_text or len(size_text) > 8 or size_text.strip(b"0123456789abcdefABCDEF"):
                raise Bad(400, "the size of a chunk is no number")
            size = int(size_text, 16)
            if len(self._chunks) + size > MAX_BODY:
                raise Bad(413, f"the body is longer than {MAX_BODY} bytes")
            if len(self._buffer) < end + 2 + size + 2:
                return None
            if self._buffer[end + 2 + size : end + 4 + size] != b"\r\n":
                raise Bad(400, "a chunk does not end where it says")  # also a trailer, which no client of ours sends
            self._chunks += self._buffer[end + 2 : end + 2 + size]
            del self._buffer[: end + 4 + size]
            if size == 0:
                return bytes(self._chunks)

    def _read_head(self, head: bytes) -> Any:
        lines = head.split(b"\r\n")
        if any(b in line for line in lines for b in (b"\0", b"\r", b"\n")):
            raise Bad(400, "a line of the head holds a control character")
        words = lines[0].split(b" ")
        if len(words) != 3 or not words[0].isalpha() or not words[1] or not words[1].isascii():
            raise Bad(400, "not a request line")
        if words[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
            raise Bad(505 if words[2].startswith(b"HTTP/") else 400, "not HTTP/1.1")
        fields: dict[bytes, bytes] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(b":")
            name = name.lower()
            if not colon or not name or name != name.strip() or line[:1] in (b" ", b"\t"):
                raise Bad(400, "not a header line")
            if name in fields and name in (b"content-length", b"transfer-encoding", b"host"):
                raise Bad(400, "two headers that may stand once alone")
            fields[name] = value.strip()
        said = fields.get(b"connection", b"").lower()
        keep = b"close" not in said if words[2] == b"HTTP/1.1" else b"keep-alive" in said
        self.expects = fields.get(b"expect", b"").lower() == b"100-continue"
        return words[0].decode(), words[1].decode(), keep, self._length(fields)

    def _length(self, fields: dict[bytes, bytes]) -> int | None:
        coding, length = fields.get(b"transfer-encoding"), fields.get(b"content-length")
        if coding is not None:
            if length is not None:
                raise Bad(400, "a length and chunks at the same time")
            if coding.lower() != b"chunked":
                raise Bad(501, "no transfer encoding but chunked is read")
            return None
        if length is None:
            return 0
        if not length.isdigit() or len(length) > 15:
            raise Bad(400, "the length is no number")
        if int(length) > MAX_BODY:
            raise Bad(413, f"the body is longer than {MAX_BODY} bytes")
        return int(length)


def answer(status: int, kind: str, body: bytes, keep: bool, head_only: bool = False) -> bytes:
    """A whole answer as bytes."""
    lines = [
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Answer')}",
        "Content-Type: " + kind,
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Connection: " + ("keep-alive" if keep else "close"),
    ]
    if status >= 400:
        lines.append("x-should-retry: false")  # what the libraries of OpenAI ask for before they try again
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + (b"" if head_only else body)
